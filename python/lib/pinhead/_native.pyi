from typing import Optional

class Error(Exception): ...

_Column = tuple[str, str, bytes, Optional[bytes], int, list[str]]

def extent(dir: str) -> Optional[tuple[int, int]]: ...
def gaps(dir: str, from_ms: int, to_ms: int) -> list[tuple[int, int, str]]: ...
def fields(part: str) -> list[tuple[str, str, str, str, str]]: ...
def table(
    dir: str,
    part: str,
    from_ms: int,
    to_ms: int,
    step_ms: Optional[int],
    fields: Optional[list[str]],
) -> list[_Column]: ...
def replay(
    dir: str,
    from_ms: int,
    to_ms: int,
    journal: Optional[str],
    policy: Optional[str],
    host: Optional[int],
    growth_permille: int,
    more: Optional[tuple[int, str]],
    decisions: bool,
) -> tuple[str, Optional[str], Optional[str]]: ...
def fit(
    dir: str,
    from_ms: int,
    to_ms: int,
    like: str,
    policy: Optional[str],
    host: Optional[int],
    growth_permille: int,
) -> str: ...
def size(
    dir: str,
    from_ms: int,
    to_ms: int,
    guests: list[str],
    percentile_permille: int,
    headroom_permille: int,
    enough_ms: int,
) -> str: ...
