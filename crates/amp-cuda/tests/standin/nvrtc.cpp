// A run-time compiler of CUDA 12.9 whose code is a note: the stand-in driver has the kernels compiled in.
#include <stddef.h>
#include <string.h>

static const char NOTE[] = ".version 8.8 // the stand-in driver finds kernels by name";
static const char CODE[] = "\177ELF, the stand-in driver finds kernels by name";
extern "C" {
int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = 9; return 0; }
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*) { *program = (void*)1; return 0; }
int nvrtcDestroyProgram(void** program) { *program = nullptr; return 0; }
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcGetProgramLogSize(void*, size_t* size) { *size = 1; return 0; }
int nvrtcGetProgramLog(void*, char* log) { *log = 0; return 0; }
int nvrtcGetPTXSize(void*, size_t* size) { *size = sizeof NOTE; return 0; }
int nvrtcGetPTX(void*, char* ptx) { memcpy(ptx, NOTE, sizeof NOTE); return 0; }
int nvrtcGetCUBINSize(void*, size_t* size) { *size = sizeof CODE; return 0; }
int nvrtcGetCUBIN(void*, char* code) { memcpy(code, CODE, sizeof CODE); return 0; }
const char* nvrtcGetErrorString(int) { return "stand-in"; }
}
