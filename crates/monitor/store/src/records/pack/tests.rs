use super::*;

fn moments() -> Vec<Moment> {
    let who = |name: &str| GuestIdentity {
        name: name.into(),
        pid: Some(u32::MAX),
        start_ticks: Some(u64::MAX),
        ..GuestIdentity::default()
    };
    (0..20u64)
        .map(|number| {
            let mut moment = Moment { at_ms: number as i64 * 1_000 - 5_000, ..Moment::default() };
            let value = [None, Some(0), Some(u64::MAX), Some(1), Some(u64::MAX / 2)];
            moment.host.set(HostField::User, value[number as usize % 5]);
            moment.host.set(HostField::ALL[HostField::ALL.len() - 1], Some(number));
            let mut row = Row::default();
            row.set(GuestField::ALL[GuestField::ALL.len() - 1], Some(number * number));
            moment.guests.insert(who("a"), row.clone());
            if number % 3 > 0 {
                moment.guests.insert(who(&format!("b{}", number % 2)), row);
            }
            let name = ProcessName { name: "x".into(), pid: number as u32 % 4 };
            let processes = [(name, Row::default())].into();
            moment.processes.insert(who("never seen as a guest"), processes);
            moment.tiers.insert("zswap".into(), Row::default());
            moment
        })
        .collect()
}

fn packed(moments: &[Moment]) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::default();
    moments.iter().map(|moment| encoder.encode(moment)).collect()
}

fn decoded(chain: &[u8]) -> Result<Vec<Moment>, Damaged> {
    let mut found = Vec::new();
    Decoder::default().decode(chain, |moment| found.push(moment))?;
    Ok(found)
}

#[test]
fn a_decoded_chain_equals_the_encoded_moments() {
    let moments = moments();
    let parts = packed(&moments);
    assert_eq!(decoded(&parts.concat()), Ok(moments.clone()));
    assert_eq!(chain(&block(&parts.concat())), Ok(parts.concat()));
    // A moment without changes takes a few bytes.
    let again = [moments[0].clone(), moments[0].clone()];
    assert!(packed(&again)[1].len() < 24, "{}", packed(&again)[1].len());
}

#[test]
fn numbers_of_either_sign_are_decoded_unchanged() {
    for number in [0, 1, -1, i64::MAX, i64::MIN, 63, -64] {
        assert_eq!(unfold(fold(number) as u64), number);
    }
    assert_eq!(fold(-1), 1);
}

#[test]
fn rows_of_another_version_are_read() {
    // This moment has only two fields of the host, but 200 fields of a guest.
    let mut bytes = vec![2, 0xc8, 1, 1, 1, 0, 0b11, 1 + 2 * 5, 0, 1, 0];
    bytes.extend([0; 6]);
    // The first and the last field: bits 0 and 7 of four masks.
    bytes.extend([0b1, 0, 0, 0x80, 1, 1 + 2 * 7, 1 + 2 * 9, 0, 0]);
    let found = decoded(&bytes).expect("read");
    assert_eq!(found[0].host.values()[..3], [Some(5), None, None]);
    let row = found[0].guests.values().next().expect("there");
    assert_eq!(row.values()[0], Some(7));
    assert!(row.values()[1..].iter().all(Option::is_none));
}

#[test]
fn damaged_bytes_are_refused_without_a_panic() {
    let whole = packed(&moments()).concat();
    let mut seed = 1u64;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut bytes = whole.clone();
        bytes.truncate(1 + (seed >> 8) as usize % whole.len());
        let place = (seed >> 32) as usize % bytes.len();
        bytes[place] = (seed >> 24) as u8;
        // The decoder stops at the damage, and the moments that it returns have valid rows.
        if let Ok(found) = decoded(&bytes) {
            assert!(found.len() <= bytes.len());
        }
    }
    let good = block(&whole);
    for place in 0..good.len() {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        assert!(chain(&bytes).is_err(), "byte {place}");
    }
    assert!(chain(&[]).is_err() && chain(&[VERSION, 1, 2]).is_err());
    assert_eq!(decoded(&[0xff; 40]), Err(Damaged("a number has more than ten bytes")));
    // This block unpacks to more than the maximum size of a chain.
    let bomb = block(&vec![0; CHAIN_MAX as usize + 1_000]);
    assert!(chain(&bomb).is_err());
}

#[test]
fn finding2_07_fields_of_a_later_version_take_no_memory() {
    let names = 1_000;
    let mut chain = Vec::new();
    (0..4).for_each(|_| put(&mut chain, u128::from(FIELDS_MAX)));
    put(&mut chain, fold(1));
    let row = |chain: &mut Vec<u8>| (0..FIELDS_MAX / 64).for_each(|_| put(chain, 0));
    row(&mut chain);
    put(&mut chain, names);
    for name in 0..names {
        put(&mut chain, 0);
        put_identity(&mut chain, &GuestIdentity { name: name.to_string(), ..Default::default() });
        // Only the last of all fields has a value.
        (1..FIELDS_MAX / 64).for_each(|_| put(&mut chain, 0));
        put(&mut chain, 1 << 63);
        put(&mut chain, 2);
    }
    chain.extend([0, 0]);
    let mut decoder = Decoder::default();
    let mut moments = Vec::new();
    assert_eq!(decoder.decode(&chain, |moment| moments.push(moment)), Ok(()));
    assert_eq!(moments[0].guests.len() as u128, names);
    assert_eq!(decoder.state.values, 0);
}
