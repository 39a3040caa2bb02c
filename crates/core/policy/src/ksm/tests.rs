use super::*;
use base::Pages;

/// A host with a ksmd that needs `us_a_page` microseconds for each page, over `all_pages` pages of
/// guests.
struct Model {
    now_ms: u64,
    sample: Sample,
    settings: Option<Settings>,
    us_a_page: f64,
    all_pages: u64,
    equal_pages: u64,
    scanned: u64,
    ksm: Ksm,
}

impl Model {
    fn new(guests: usize, available_mib: u64) -> Model {
        let counters = KsmCounters {
            pages_shared: Some(Pages(0)),
            pages_sharing: Some(Pages(0)),
            full_scans: Some(0),
            general_profit_bytes: None,
            cpu_us: Some(0),
        };
        let sample = Sample {
            guests,
            owners: guests.min(1),
            arrivals: guests as u64,
            available: Bytes::mib(available_mib),
            set_point: Bytes::mib(1000),
            hysteresis: Bytes::mib(100),
            counters,
        };
        Model {
            now_ms: 0,
            sample,
            settings: None,
            us_a_page: 2.0,
            all_pages: 8_000_000,
            equal_pages: 200_000,
            scanned: 0,
            ksm: Ksm::new(),
        }
    }

    /// Runs for these seconds. Returns the CPU time of ksmd in thousandths of a core.
    fn run(&mut self, seconds: u64) -> u64 {
        let before = self.sample.counters.cpu_us.unwrap();
        for _ in 0..seconds {
            if let Some(settings) = self.ksm.step(&self.sample, self.now_ms) {
                self.settings = Some(settings);
            }
            self.now_ms += 1000;
            let Some(settings) = self.settings.filter(|settings| settings.runs) else { continue };
            let turn_us = settings.pages_to_scan as f64 * self.us_a_page;
            let turns = 1_000_000.0 / (turn_us + settings.sleep_ms as f64 * 1000.0);
            let counters = &mut self.sample.counters;
            *counters.cpu_us.as_mut().unwrap() += (turns * turn_us) as u64;
            self.scanned += (turns * settings.pages_to_scan as f64) as u64;
            counters.full_scans = Some(self.scanned / self.all_pages);
            let found = self.scanned.saturating_sub(self.all_pages).min(self.all_pages);
            let found = u128::from(found) * u128::from(self.equal_pages);
            let sharing = u64::try_from(found / u128::from(self.all_pages)).unwrap();
            counters.pages_sharing = Some(Pages(sharing));
        }
        (self.sample.counters.cpu_us.unwrap() - before) / (seconds * 1000)
    }
}

#[test]
fn search_is_off_with_one_guest_or_enough_memory() {
    for mut model in [Model::new(1, 10), Model::new(0, 10), Model::new(9, 5000)] {
        assert_eq!(model.run(100), 0);
        assert_eq!(model.ksm.phase(), Phase::Off);
        assert!(model.settings.is_some_and(|settings| !settings.runs), "KSM is switched off once");
    }
}

#[test]
fn search_is_hard_at_first_and_costs_a_tenth_in_the_long_run() {
    let mut model = Model::new(8, 500);
    model.run(10);
    assert_eq!(model.ksm.phase(), Phase::Hard);
    let hard = model.run(20);
    assert!(hard > 300 && hard <= HARD_PERMILLE + 50, "{hard}");
    let mut waited = 0;
    while model.ksm.phase() == Phase::Hard {
        model.run(1);
        waited += 1;
        assert!(waited < 600);
    }
    assert_eq!(model.sample.counters.full_scans, Some(2));
    assert!(model.sample.counters.pages_sharing.unwrap().0 >= 199_000);
    model.run(3);
    let steady = model.run(20);
    assert!(steady <= STEADY_PERMILLE + 10, "{steady}");
    // All equal pages are found. The search pauses, and merged pages stay merged.
    while model.ksm.phase() != Phase::Rest {
        model.run(1);
        assert!(model.now_ms < 3_600_000);
    }
    assert_eq!(model.run(60), 0);
}

#[test]
fn rest_ends_with_a_new_guest_with_loss_and_after_its_time() {
    let mut model = Model::new(8, 500);
    while model.ksm.phase() != Phase::Rest {
        model.run(1);
        assert!(model.now_ms < 3_600_000);
    }
    let mut other = Model { ksm: model.ksm.clone(), ..Model::new(8, 500) };
    other.sample = model.sample;
    other.now_ms = model.now_ms;
    other.sample.counters.pages_sharing = Some(Pages(100_000));
    other.ksm.step(&other.sample, other.now_ms);
    assert_eq!(other.ksm.phase(), Phase::Steady, "half was lost");

    model.sample.guests += 1;
    model.sample.arrivals += 1;
    model.ksm.step(&model.sample, model.now_ms);
    assert_eq!(model.ksm.phase(), Phase::Hard);

    let mut late = Model::new(8, 500);
    while late.ksm.phase() != Phase::Rest {
        late.run(1);
    }
    late.run(REST_MS / 1000 - 10);
    assert_eq!(late.ksm.phase(), Phase::Rest);
    late.run(20);
    assert_eq!(late.ksm.phase(), Phase::Steady);
}

#[test]
fn a_host_that_becomes_short_is_searched_hard() {
    let mut model = Model::new(8, 5000);
    model.run(10);
    assert_eq!(model.ksm.phase(), Phase::Off);
    model.sample.available = Bytes::mib(900);
    model.run(1);
    assert_eq!(model.ksm.phase(), Phase::Hard);
}

#[test]
fn memory_at_the_set_point_restarts_no_search() {
    let mut model = Model::new(8, 900);
    model.run(700);
    assert_ne!(model.ksm.phase(), Phase::Hard);
    let set_point = model.sample.set_point;
    for _ in 0..100 {
        for available in [set_point.plus(Bytes::mib(1)), set_point.less(Bytes::mib(1))] {
            model.sample.available = available;
            model.run(1);
            assert_ne!(model.ksm.phase(), Phase::Hard);
        }
    }
}

#[test]
fn pace_does_not_rise_without_a_measurement() {
    let mut model = Model::new(8, 500);
    model.sample.counters = KsmCounters::default();
    for second in 0..10_000 {
        if let Some(settings) = model.ksm.step(&model.sample, second * 1000) {
            assert!(settings.pages_to_scan <= PAGES_START, "{settings:?}");
        }
    }
    assert_eq!(model.ksm.cost_permille(), None);
}

#[test]
fn counters_that_jump_do_no_harm() {
    let mut model = Model::new(8, 500);
    let values = [0, u64::MAX, 1, u64::MAX / 2, 0];
    for (second, value) in (0..1000).zip(values.into_iter().cycle()) {
        model.sample.counters.cpu_us = Some(value);
        model.sample.counters.full_scans = Some(value);
        model.sample.counters.pages_sharing = Some(Pages(value));
        if let Some(settings) = model.ksm.step(&model.sample, second * 1000) {
            assert!((PAGES_MIN..=PAGES_MAX).contains(&settings.pages_to_scan));
        }
    }
}

#[test]
fn finding_11_guests_of_several_users_share_no_pages() {
    let mut model = Model::new(8, 500);
    model.run(30);
    assert_eq!(model.ksm.phase(), Phase::Hard);
    // A guest of another user arrives. No further page is scanned, even if the host is short of
    // memory.
    (model.sample.owners, model.sample.guests, model.sample.arrivals) = (2, 9, 9);
    model.sample.available = Bytes::mib(1);
    assert_eq!(model.run(3_600), 0);
    assert_eq!(model.ksm.phase(), Phase::Apart);
    assert!(model.settings.is_some_and(|settings| !settings.runs), "KSM is switched off");
    // That guest leaves.
    (model.sample.owners, model.sample.guests) = (1, 8);
    model.run(5);
    assert_eq!(model.ksm.phase(), Phase::Hard);
}
