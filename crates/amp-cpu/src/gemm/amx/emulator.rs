//! An AMX unit in software, so that the engine's machine code runs on any x86-64 Linux.
//!
//! A processor without AMX raises SIGILL at its instructions. The handler decodes the one it stopped at, does on the
//! interrupted thread's registers and memory what Intel's manual says, and steps over it. What a processor would refuse
//! (a configuration out of bounds, shapes that do not fit, a tile that is not configured) ends the test with a message;
//! what is no AMX instruction is left to end the process as it would without a handler.

use super::detect;
use half::bf16;
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::OnceLock;

/// What a processor reports instead of executing an instruction.
pub(super) type Fault = &'static str;

const TILES: usize = 8;
const MAX_ROWS: usize = 16;
const MAX_ROW_BYTES: usize = 64;

/// One tile register.
#[derive(Clone, Copy)]
struct TileRegister {
    rows: usize,
    row_bytes: usize,
    data: [[u8; MAX_ROW_BYTES]; MAX_ROWS],
}

const EMPTY: TileRegister = TileRegister { rows: 0, row_bytes: 0, data: [[0; MAX_ROW_BYTES]; MAX_ROWS] };

/// The unit's state, which every thread has its own of.
pub(super) struct Unit {
    configured: bool,
    tiles: [TileRegister; TILES],
}

impl Unit {
    pub(super) const fn new() -> Self {
        Self { configured: false, tiles: [EMPTY; TILES] }
    }

    /// `ldtilecfg`
    pub(super) fn configure(&mut self, config: &[u8; 64]) -> Result<(), Fault> {
        *self = Self::new();
        match config[0] {
            0 => return Ok(()),
            1 => {}
            _ => return Err("ldtilecfg: no such palette"),
        }
        let word = |i: usize| usize::from(u16::from_le_bytes([config[16 + 2 * i], config[17 + 2 * i]]));
        let reserved = config[2..16].iter().chain(&config[16 + 2 * TILES..48]).chain(&config[48 + TILES..]);
        if reserved.clone().any(|&byte| byte != 0) || usize::from(config[1]) >= MAX_ROWS {
            return Err("ldtilecfg: reserved bytes are not zero");
        }
        for (i, tile) in self.tiles.iter_mut().enumerate() {
            (tile.rows, tile.row_bytes) = (usize::from(config[48 + i]), word(i));
            if tile.rows > MAX_ROWS || tile.row_bytes > MAX_ROW_BYTES || (tile.rows == 0) != (tile.row_bytes == 0) {
                return Err("ldtilecfg: a tile's form is out of bounds");
            }
        }
        self.configured = true;
        Ok(())
    }

    /// `tilerelease`
    pub(super) fn release(&mut self) {
        *self = Self::new();
    }

    fn tile(&mut self, index: usize) -> Result<&mut TileRegister, Fault> {
        let tile = self.tiles.get_mut(index).ok_or("no such tile register")?;
        if !self.configured || tile.rows == 0 { Err("the tile is not configured") } else { Ok(tile) }
    }

    /// `tilezero`
    pub(super) fn zero(&mut self, index: usize) -> Result<(), Fault> {
        self.tile(index)?.data = EMPTY.data;
        Ok(())
    }

    /// `tileloadd`, `tileloaddt1`
    ///
    /// # Safety
    /// As the instruction: the tile's rows must be readable.
    pub(super) unsafe fn load(&mut self, index: usize, start: usize, stride: usize) -> Result<(), Fault> {
        let tile = self.tile(index)?;
        tile.data = EMPTY.data;
        for (i, row) in tile.data[..tile.rows].iter_mut().enumerate() {
            let from = std::ptr::with_exposed_provenance::<u8>(start.wrapping_add(i.wrapping_mul(stride)));
            // SAFETY: the bytes are readable (caller), and `row` is as long as they are many at most.
            unsafe { from.copy_to(row.as_mut_ptr(), tile.row_bytes) };
        }
        Ok(())
    }

    /// `tilestored`
    ///
    /// # Safety
    /// As the instruction: the tile's rows must be writable.
    pub(super) unsafe fn store(&mut self, index: usize, start: usize, stride: usize) -> Result<(), Fault> {
        let tile = self.tile(index)?;
        for (i, row) in tile.data[..tile.rows].iter().enumerate() {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(start.wrapping_add(i.wrapping_mul(stride)));
            // SAFETY: the bytes are writable (caller), and `row` is as long as they are many at least.
            unsafe { to.copy_from(row.as_ptr(), tile.row_bytes) };
        }
        Ok(())
    }

    /// `tdpbf16ps sums, left, right`
    pub(super) fn dot(&mut self, sums: usize, left: usize, right: usize) -> Result<(), Fault> {
        if sums == left || left == right || sums == right {
            return Err("tdpbf16ps: the same tile twice");
        }
        let (a, b) = (*self.tile(left)?, *self.tile(right)?);
        let c = self.tile(sums)?;
        if [a.row_bytes, b.row_bytes, c.row_bytes].iter().any(|bytes| bytes % 4 != 0) {
            return Err("tdpbf16ps: rows of a broken number of elements");
        }
        if c.rows != a.rows || a.row_bytes / 4 != b.rows || c.row_bytes != b.row_bytes {
            return Err("tdpbf16ps: the tiles' forms do not fit");
        }
        for (row, sums) in c.data[..a.rows].iter_mut().enumerate() {
            let mut terms = [[0.0_f32; 2]; MAX_ROW_BYTES / 4];
            for k in 0..a.row_bytes / 4 {
                for (n, terms) in terms[..b.row_bytes / 4].iter_mut().enumerate() {
                    for (odd, term) in terms.iter_mut().enumerate() {
                        let (a, b) = (element(&a.data[row], 2 * k + odd), element(&b.data[k], 2 * n + odd));
                        *term = flushed(a.mul_add(b, *term));
                    }
                }
            }
            for (sum, [even, odd]) in sums.as_chunks_mut::<4>().0.iter_mut().zip(terms) {
                *sum = flushed(flushed(f32::from_le_bytes(*sum)) + flushed(even + odd)).to_le_bytes();
            }
            sums[c.row_bytes..].fill(0);
        }
        Ok(())
    }

    pub(super) fn is_configured(&self) -> bool {
        self.configured
    }
}

fn element(row: &[u8; MAX_ROW_BYTES], i: usize) -> f32 {
    flushed(bf16::from_le_bytes([row[2 * i], row[2 * i + 1]]).to_f32())
}

/// Subnormal numbers are zero of the same sign, on the way in and out.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

/// An instruction with its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Instruction {
    Configure { address: usize },
    Release,
    Zero { tile: usize },
    Load { tile: usize, start: usize, stride: usize },
    Store { tile: usize, start: usize, stride: usize },
    Dot { sums: usize, left: usize, right: usize },
}

/// Decodes an AMX instruction and computes its addresses; also returns its length.
///
/// `registers` are in the order of their numbers, `at` is where the code lies.
pub(super) fn decode(code: &[u8], at: usize, registers: &[usize; 16]) -> Option<(Instruction, usize)> {
    let &[0xc4, map, vex, opcode, modrm, ..] = code else { return None };
    // Map 0f38, W and L are 0; R, X, B and vvvv are stored inverted.
    if map & 0x1f != 2 || vex & 0x84 != 0 {
        return None;
    }
    let extended = |bit: u8| usize::from(!map >> bit & 1) << 3;
    let (prefix, vvvv) = (vex & 3, usize::from(!vex >> 3 & 15));
    let (mode, middle, low) = (modrm >> 6, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    let (r, b) = (middle | extended(7), low | extended(5));
    match (opcode, prefix, mode) {
        (0x49, 0, 3) => return (modrm == 0xc0 && vvvv == 0).then_some((Instruction::Release, 5)),
        (0x49, 3, 3) => return (low == 0 && vvvv == 0).then_some((Instruction::Zero { tile: r }, 5)),
        (0x5c, 2, 3) => return Some((Instruction::Dot { sums: r, left: b, right: vvvv }, 5)),
        (0x49, 0, _) | (0x4b, 1..=3, 0..=2) if vvvv == 0 => {}
        _ => return None,
    }
    let mut rest = code[5..].iter();
    let (mut base, mut stride) = (Some(b), 0);
    if low == 4 {
        let sib = *rest.next()?;
        let index = usize::from(sib >> 3 & 7) | extended(6);
        stride = if index == 4 { 0 } else { registers[index] << (sib >> 6) };
        base = Some(usize::from(sib & 7) | extended(5)).filter(|base| base & 7 != 5 || mode != 0);
    }
    let relative = low == 5 && mode == 0;
    let bytes = match mode {
        1 => 1,
        2 => 4,
        _ if relative || base.is_none() => 4,
        _ => 0,
    };
    let mut displacement = [0_u8; 4];
    for byte in &mut displacement[..bytes] {
        *byte = *rest.next()?;
    }
    let displacement =
        if bytes == 1 { i64::from(displacement[0] as i8) } else { i64::from(i32::from_le_bytes(displacement)) };
    let length = code.len() - rest.len();
    let base = if relative { at.wrapping_add(length) } else { base.map_or(0, |base| registers[base]) };
    let start = base.wrapping_add(displacement as usize);
    let instruction = match (opcode, prefix) {
        (0x49, 0) if middle == 0 => Instruction::Configure { address: start.wrapping_add(stride) },
        (0x4b, 1 | 3) if low == 4 => Instruction::Load { tile: r, start, stride },
        (0x4b, 2) if low == 4 => Instruction::Store { tile: r, start, stride },
        _ => return None,
    };
    Some((instruction, length))
}

thread_local! {
    static UNIT: RefCell<Unit> = const { RefCell::new(Unit::new()) };
}

/// Makes AMX instructions work in this process, by emulation where the machine lacks them.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        if detect::is_available() {
            return;
        }
        // SAFETY: a zeroed `sigaction` is a valid one without flags or blocked signals; `handle` has the form that
        // SA_SIGINFO asks for. Without SA_ONSTACK it runs below the red zone of the interrupted thread's stack.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_flags = libc::SA_SIGINFO;
            action.sa_sigaction = handle as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()), 0);
        }
    });
}

/// Whether this thread's emulated tiles are configured; never on a machine that needs no emulation.
pub(super) fn is_configured() -> bool {
    UNIT.with_borrow(Unit::is_configured)
}

/// The general registers in the order of their numbers in instructions.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];
/// The longest AMX instruction: five bytes, an index, four bytes of displacement.
const LONGEST: usize = 10;

/// Executes the instruction that raised the signal, which is synchronous: the thread was in the middle of it, not inside
/// the allocator or another borrow of its unit.
extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes the interrupted thread's registers, which nobody else uses meanwhile.
    let general = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let registers = REGISTERS.map(|register| general[register as usize] as usize);
    let at = general[libc::REG_RIP as usize] as usize;
    // SAFETY: an instruction was fetched from here, and code goes on after it: the tests have no AMX instruction at the
    // very end of their text.
    let code = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(at), LONGEST) };
    let Some((instruction, length)) = decode(code, at, &registers) else {
        // SAFETY: the default action is valid; the instruction runs again and ends the process.
        unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
        return;
    };
    // SAFETY: memory operands are the program's own: a processor would have accessed the same addresses.
    if let Err(fault) = UNIT.with_borrow_mut(|unit| unsafe { execute(unit, instruction) }) {
        eprintln!("AMX: {fault}: {instruction:x?}");
        std::process::abort();
    }
    general[libc::REG_RIP as usize] = (at + length) as i64;
}

/// # Safety
/// As the instruction: its memory operands must be accessible.
unsafe fn execute(unit: &mut Unit, instruction: Instruction) -> Result<(), Fault> {
    // SAFETY: the caller's duty.
    unsafe {
        match instruction {
            Instruction::Configure { address } => {
                let config = std::ptr::with_exposed_provenance::<[u8; 64]>(address).read_unaligned();
                unit.configure(&config)
            }
            Instruction::Release => {
                unit.release();
                Ok(())
            }
            Instruction::Zero { tile } => unit.zero(tile),
            Instruction::Load { tile, start, stride } => unit.load(tile, start, stride),
            Instruction::Store { tile, start, stride } => unit.store(tile, start, stride),
            Instruction::Dot { sums, left, right } => unit.dot(sums, left, right),
        }
    }
}
