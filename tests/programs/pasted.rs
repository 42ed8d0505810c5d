//! Functions and regions that a macro of the program's own writes: what it was given as an expression is one operand, and a type one type.

use super::*;

struct Scale {
    by: fn(f64) -> f64,
}

macro_rules! scaled {
    ($name:ident($x:ident, $scale:ident), [$($attr:meta)?], $k:expr, $n:expr, $y:expr, $negative:expr, $by:expr) => {
        $(#[$attr])?
        fn $name($x: &T, $scale: &Scale) -> Result<T> {
            let (gain, less) = (2.0 * $k, -$k);
            let index = 10 - $n;
            let text = format!("{} {}", 2.0 * $k, 2 * $n);
            assert_eq!((text.as_str(), vec![2 * $n; 4 - $n].len()), ("1.5 6", 1));
            assert!(!$negative, "{}", !$negative);
            let ranged = (0..$n).len() as f64 * $by(2.0);
            let negated = -$y?;
            ((negated? * gain)? * $n as f64)? + (index as f64 + less + ranged)
        }
    };
}
macro_rules! both {
    ($x:ident, $scale:ident, $($given:expr),*) => {
        scaled!(mixed($x, $scale), [autocast(f16)], $($given),*);
        scaled!(full($x, $scale), [autocast(f32)], $($given),*);
        scaled!(plain($x, $scale), [], $($given),*);
    };
}
both!(x, scale, 0.5 + 0.25, 1 + 2, x.matmul(x), x.rank() == 1 || x.rank() == 3, scale.by);

macro_rules! gain {
    ($k:expr) => {
        amp_region!(bf16, 2.0 * $k)
    };
}

amp_policy! { plain_rules { full: [gelu] } }

macro_rules! by_policy {
    ($name:ident($x:ident), $k:expr, $off:expr) => {
        #[autocast(bf16, policy = plain_rules, enabled = !$off)]
        fn $name($x: &T) -> Result<T> {
            let y = ($x.matmul($x)? * -$k)?;
            let narrow = std::any::type_name_of_val(&y).contains("BF16");
            amp_region!(bf16, policy = plain_rules, y * (2.0 * $k))? + f64::from(narrow)
        }
    };
}
by_policy!(by_policy(x), 1.0 - 2.0, x.rank() == 1 || x.rank() == 2);

macro_rules! nested {
    ($name:ident($x:ident), $k:expr, $off:expr) => {
        #[autocast(bf16, enabled = !$off)]
        fn $name($x: &T) -> Result<T> {
            let y = amp_region!(f32, $x.to::<F32>()? * -$k)?;
            y.relu()? + {
                fn inner() -> f64 {
                    2.0 * $k
                }
                inner()
            }
        }
    };
}
nested!(nested(x), 1.0 - 2.0, x.rank() == 1 || x.rank() == 3);

macro_rules! typed {
    ($name:ident, $shown:ty, $number:ty, $one:pat) => {
        #[autocast(f16)]
        fn $name(x: &T, shown: &$shown) -> Result<T> {
            let print: fn(&$shown) -> String = |shown| shown.to_string();
            let below = 3i64 as $number < 4;
            let factor = match print(shown).len() {
                $one if below => 1.0,
                _ => 2.0,
            };
            x.matmul(x)? * factor
        }
    };
}
typed!(typed, dyn ToString + Send, usize, 1 | 3);

#[test]
fn what_a_macro_was_given_stays_together() -> Result<()> {
    let x = T::ones([2, 2], &Device::cpu())?;
    let scale = Scale { by: |x| x + 1.0 };
    let by_hand = -2.0 * 1.5 * 3.0 + (7.0 - 0.75 + 9.0);
    for made in [mixed, full, plain] {
        assert_eq!(made(&x, &scale)?.to_vec()?, [by_hand; 4]);
    }
    assert_eq!(gain!(0.5 + 0.25), 1.5);
    assert_eq!(nested(&x)?.to_vec()?, [-1.0; 4]);
    assert_eq!(by_policy(&x)?.to_vec()?, [-4.0; 4]);
    assert_eq!(typed(&x, &8.5)?.to_vec()?, [2.0; 4]);
    Ok(())
}
