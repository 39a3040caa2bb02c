"""``python -m pinhead parquet DIR OUT`` writes recordings as Parquet files."""

from __future__ import annotations

import argparse
import sys

from . import Error, Recording


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m pinhead")
    commands = parser.add_subparsers(required=True)
    parquet = commands.add_parser("parquet", help="write recordings as files of Parquet")
    parquet.add_argument("dir", help="the directory of the recordings")
    parquet.add_argument("out", help="the directory for the files")
    parquet.add_argument("--every", default="1min", help="length of a row's time: 1min, 15min, 1h")
    args = parser.parse_args(words)
    try:
        for path in Recording(args.dir).to_parquet(args.out, every=args.every):
            print(path)
    except (Error, OSError, TypeError, ValueError) as error:
        print(f"python -m pinhead: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
