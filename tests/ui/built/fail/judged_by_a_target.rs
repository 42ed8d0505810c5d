//~ error: assertion failed
use amp::__private::{Element, F16, Half, HeldIn, Part, is_half, to, verdict};

struct Eps;

impl<P: Element> HeldIn<P> for Eps {
    const HELD: () = assert!(!(is_half::<P>(Half::F16) && verdict(1e-8, Half::F16, Part::Term) != 0));
}

fn main() {
    to::<F16>().holds::<Eps>();
}
