//! The run-time compiler: machine code from a program's text.

use super::usable;
use cudarc::nvrtc::result::{self as rtc, NvrtcError};
use cudarc::nvrtc::sys;
use std::ffi::CString;

/// Major and minor version of the run-time compiler, `None` where none can be opened.
pub(crate) fn compiler() -> Option<(i32, i32)> {
    let names = [&b"nvrtcCreateProgram\0"[..], b"nvrtcCompileProgram\0", b"nvrtcGetCUBIN\0", b"nvrtcVersion\0"];
    if !usable!(sys, names) {
        return None;
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library has the function; both pointers are to locals that outlive the call.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().ok()?;
    Some((major, minor))
}

/// A program of the compiler's.
struct Program(sys::nvrtcProgram);

/// Machine code of a program, or what the compiler says about it.
pub(crate) fn machine_code(source: &str, name: &str, options: &[String]) -> Result<Vec<u8>, String> {
    let text = |s: &str| CString::new(s).map_err(|e| e.to_string());
    let (source, name) = (text(source)?, text(name)?);
    let program = Program(rtc::create_program(&source, Some(&name)).map_err(|e| e.to_string())?);
    // SAFETY: the program was made just now, and lives longer than the call.
    unsafe { rtc::compile_program(program.0, options) }.map_err(|e| format!("{e} {}", program.log()))?;
    program.code().map_err(|e| e.to_string())
}

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let log = unsafe { rtc::get_program_log(self.0) }.unwrap_or_default();
        let bytes: Vec<u8> = log.into_iter().map(|c| c as u8).take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn code(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is alive; the pointer is to a local that outlives the call.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) }.result()?;
        let mut code = vec![0u8; size];
        // SAFETY: as above; the memory is as large as the compiler asked for.
        unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `machine_code`, destroyed once.
        let _ = unsafe { rtc::destroy_program(self.0) };
    }
}
