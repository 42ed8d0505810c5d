//! Ranges that never overlap, and how little more memory than it holds a step needs.

use super::ranges::Arena;
use super::{LINE, Pool, Span, lasting};

/// Overlaps of ranges, sums and indices that do not agree.
fn check(arena: &Arena, lent: &[(usize, usize)]) {
    let mut ranges: Vec<(usize, usize)> = arena.free.iter().map(|(&at, range)| (at, range.bytes)).collect();
    ranges.extend(lent);
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "overlap");
    let total: usize = ranges.iter().map(|range| range.1).sum();
    assert_eq!(total, arena.segments.values().map(|segment| segment.bytes).sum::<usize>(), "lost bytes");
    let kept: Vec<(usize, usize)> =
        arena.free.iter().filter(|(_, range)| range.kept).map(|(&at, range)| (range.bytes, at)).collect();
    assert_eq!(kept.iter().map(|range| range.0).sum::<usize>(), arena.kept);
    assert!(kept.len() == arena.sizes.len() && kept.iter().all(|range| arena.sizes.contains(range)));
}

#[test]
fn spans_never_overlap_and_nothing_is_lost() {
    let (mut arena, mut lent, mut state) = (Arena::new(), Vec::<(usize, usize)>::new(), 7_u64);
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..3000 {
        match random(200) {
            0 => arena.give_up(),
            kind if kind < 110 || lent.is_empty() => {
                let most = 1 << (4 + random(14));
                let bytes = (1 + random(most)) * LINE;
                lent.push((arena.lend(bytes).expect("memory"), bytes));
                assert_eq!(lent[lent.len() - 1].0 % LINE, 0);
            }
            _ => {
                let (start, bytes) = lent.swap_remove(random(lent.len()));
                arena.join(start, bytes, true);
            }
        }
        if round % 16 == 0 {
            check(&arena, &lent);
        }
    }
    lent.drain(..).for_each(|(start, bytes)| arena.join(start, bytes, true));
    check(&arena, &lent);
    assert!(arena.free.values().all(|range| range.bytes > 0));
    arena.give_up();
    assert!(arena.segments.is_empty() && arena.free.is_empty() && arena.kept == 0);
}

#[test]
fn what_came_back_serves_first_and_neighbours_join() {
    let mut arena = Arena::new();
    let spans: Vec<usize> = (0..4).map(|_| arena.lend(1 << 16).expect("memory")).collect();
    assert_eq!(arena.kept, 0);
    arena.join(spans[1], 1 << 16, true);
    assert_eq!(arena.lend(1 << 15).expect("memory"), spans[1]);
    arena.join(spans[1], 1 << 15, true);
    arena.join(spans[2], 1 << 16, true);
    assert_eq!((arena.kept, arena.sizes.len()), (1 << 17, 1));
    assert_eq!(arena.lend(1 << 17).expect("memory"), spans[1], "two that joined");
    arena.join(spans[3], 1 << 16, true);
    assert_eq!(arena.lend(1 << 17).expect("memory"), spans[3], "the last and new pages behind it");
    arena.join(spans[0], 1 << 16, true);
    arena.join(spans[1], 1 << 17, true);
    arena.give_up();
    assert_eq!(arena.kept, 0);
    assert_eq!(arena.lend(3 << 16).expect("memory"), spans[0]);
    arena.join(spans[0], 3 << 16, true);
    arena.join(spans[3], 1 << 17, true);
    arena.give_up();
    assert!(arena.segments.is_empty());
}

#[test]
fn large_spans_take_the_first_range_with_room_and_small_ones_the_tightest() {
    let mut arena = Arena::new();
    let wide = arena.lend(16 << 20).expect("memory");
    let between = arena.lend(1 << 20).expect("memory");
    let tight = arena.lend(8 << 20).expect("memory");
    arena.lend(1 << 20).expect("memory");
    arena.join(wide, 16 << 20, true);
    arena.join(tight, 8 << 20, true);
    assert_eq!(arena.lend(8 << 20).expect("memory"), wide);
    assert_eq!((arena.lend(1 << 19).expect("memory"), between), (tight, wide + (16 << 20)));
}

#[test]
fn no_more_than_the_limit_is_kept_of_both_kinds() {
    let mut pool = Pool::new();
    pool.limit = 3 << 16;
    let mut spans = [false, true, false, true].map(|lasting| (pool.lend(1 << 16, lasting).expect("memory"), lasting));
    let keeps = [1 << 16, 2 << 16, 3 << 16, 0];
    for ((start, lasting), kept) in spans.into_iter().zip(keeps) {
        pool.take_back(start, 1 << 16, lasting);
        assert_eq!(pool.kept(), kept);
    }
    assert!(pool.step.segments.is_empty() && pool.lasting.segments.is_empty());
    spans = spans.map(|(_, lasting)| (pool.lend(1 << 16, lasting).expect("memory"), lasting));
    pool.take_back(spans[0].0, 1 << 16, false);
    pool.limit = 0;
    pool.obey_limit();
    assert_eq!(pool.kept(), 0);
}

#[test]
fn lasting_spans_lie_apart_and_the_rest_of_the_thread_does_not_notice() {
    let near = |a: &Span, b: &Span| a.lasting == b.lasting;
    let (before, inside) = (Span::lend(64), lasting(|| lasting(|| Span::lend(64))));
    assert!(!near(&before, &inside) && inside.lasting);
    assert!(std::panic::catch_unwind(|| lasting(|| panic!("on purpose"))).is_err());
    assert!(near(&before, &Span::lend(64)));
}

/// Steps of `layers` layers: what the forward pass keeps, gradients that take its place, and one lasting buffer each in the
/// first step. Returns the most bytes that were lent at one time.
fn step(pool: &mut Pool, layers: usize, rows: usize, first: bool) -> usize {
    let (mut kept, mut grads, mut lent, mut most) = (Vec::new(), Vec::new(), 0, 0);
    let mut lend = |pool: &mut Pool, bytes: usize, lent: &mut usize| {
        *lent += bytes;
        most = most.max(*lent);
        (pool.lend(bytes, false).expect("memory"), bytes)
    };
    for layer in 0..layers {
        kept.push(lend(pool, rows * LINE * (1 + layer % 3), &mut lent));
        if first {
            pool.lend(1 << 20, true).expect("memory");
        }
    }
    while let Some((start, bytes)) = kept.pop() {
        let gradient = lend(pool, 2 * bytes, &mut lent);
        grads.push(lend(pool, 1 << 20, &mut lent));
        for (start, bytes) in [gradient, (start, bytes)] {
            pool.take_back(start, bytes, false);
            lent -= bytes;
        }
    }
    grads.into_iter().for_each(|(start, bytes)| pool.take_back(start, bytes, false));
    most
}

#[test]
fn steps_of_any_size_need_little_more_than_the_largest() {
    let (mut pool, mut state, mut most) = (Pool::new(), 1_u64, 0);
    for number in 0..600 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rows = 1 + (state >> 33) as usize % 40_000;
        most = most.max(step(&mut pool, 24, rows, number == 0));
        // Between steps everything of theirs is free, in one piece.
        pool.settle();
        assert_eq!(pool.step.sizes.len(), 1);
        assert!(pool.kept() * 4 <= most * 5, "step {number}: {} bytes are kept, {most} were needed", pool.kept());
    }
    assert_eq!((pool.step.segments.len(), pool.lasting.segments.len()), (1, 1));
    pool.give_up();
    assert_eq!((pool.kept(), pool.step.segments.len()), (0, 0));
}

/// In a process that may address 3 GiB: 1.5 GiB that are kept for later requests make room for one of 2 GiB.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn what_is_kept_is_given_up_before_a_request_fails() {
    const AGAIN: &str = "AMP_TEST_LITTLE_ADDRESS_SPACE";
    if std::env::var_os(AGAIN).is_some() {
        for apart in [false, true] {
            let lend = |bytes| if apart { lasting(|| Span::lend(bytes)) } else { Span::lend(bytes) };
            drop(lend(3 << 29));
            assert!(super::kept() >= 3 << 29);
            drop(Span::lend(2 << 30));
        }
        return;
    }
    let program = std::env::current_exe().expect("the test binary has a path");
    let name = "arena::tests::what_is_kept_is_given_up_before_a_request_fails";
    let mut again = std::process::Command::new("sh");
    again.args(["-c", "ulimit -v 3145728 && exec \"$0\" --exact \"$1\" --test-threads=1"]).arg(program).arg(name);
    let output = again.env(AGAIN, "1").output().expect("a shell starts");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{said:?}");
}
