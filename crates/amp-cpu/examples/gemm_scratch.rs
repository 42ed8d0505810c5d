use amp_cpu::*;
use std::time::Instant;
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + 1e-9 * t.tv_nsec as f64
}
fn fill(dtype: DType, n: usize, seed: u32) -> Storage {
    let mut s = seed;
    let v: Vec<f32> = (0..n)
        .map(|_| {
            s = s.wrapping_mul(1664525).wrapping_add(1013904223);
            (s >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    match dtype {
        DType::F32 => Storage::F32(v),
        DType::BF16 => Storage::BF16(v.iter().map(|&x| half::bf16::from_f32(x)).collect()),
        DType::F16 => Storage::F16(v.iter().map(|&x| half::f16::from_f32(x)).collect()),
        _ => unreachable!(),
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let threads: usize = args.get(1).map_or(1, |a| a.parse().unwrap());
    let only = args.get(2).cloned().unwrap_or_default();
    set_num_threads(threads);
    for [batch, m, k, n] in [
        [1, 256, 256, 256],
        [1, 512, 512, 512],
        [1, 1024, 1024, 1024],
        [1, 2048, 2048, 2048],
        [1, 4096, 4096, 4096],
        [1, 128, 768, 3072],
        [1, 2048, 768, 768],
        [96, 256, 64, 256],
        [96, 256, 256, 64],
        [96, 64, 256, 64],
        [1, 4096, 384, 1536],
        [1, 4096, 1536, 384],
        [1, 384, 4096, 1536],
        [1, 128, 1024, 1024],
        [1, 2048, 64, 64],
        [1, 37, 1000, 211],
    ] {
        for (name, stored, ta, tb, out) in [
            ("nn", DType::BF16, false, false, DType::BF16),
            ("nt", DType::BF16, false, true, DType::BF16),
            ("tn", DType::BF16, true, false, DType::F32),
            ("auto", DType::F32, false, false, DType::BF16),
        ] {
            let label = format!("{batch}x{m}x{k}x{n} {name}");
            if !only.split(',').all(|o| label.contains(o)) {
                continue;
            }
            let a = fill(stored, batch * m * k, 1);
            let b = fill(stored, batch * n * k, 2);
            let d = |a: &[usize]| Dims::new(a).unwrap();
            let shape = |r: usize, c: usize, t: bool| Layout {
                shape: d(&[batch, r, c]),
                strides: if t { d(&[r * c, 1, r]) } else { d(&[r * c, c, 1]) },
                offset: 0,
            };
            let (la, lb) = (shape(m, k, ta), shape(k, n, tb));
            let av = View { data: a.as_slice(), layout: &la, logical: DType::BF16 };
            let bv = View { data: b.as_slice(), layout: &lb, logical: DType::BF16 };
            let gflop = 2e-9 * (batch * m * k * n) as f64;
            let inner = ((0.004 / (gflop / 400.0)) as usize).clamp(1, 200);
            let mut times = vec![];
            for _ in 0..40 {
                let (w, c) = (Instant::now(), cpu());
                for _ in 0..inner {
                    matmul(&av, &bv, &Epilogue::default(), out).recycle();
                }
                times.push(if threads == 1 { cpu() - c } else { w.elapsed().as_secs_f64() } / inner as f64);
                if times.iter().sum::<f64>() * inner as f64 > 1.5 {
                    break;
                }
            }
            times.sort_by(f64::total_cmp);
            println!(
                "{label:32} {:9.1} us best {:6.1} GF/s median {:6.1}",
                times[0] * 1e6,
                gflop / times[0],
                gflop / times[times.len() / 2]
            );
        }
    }
}
