// What the C and C++ libraries of manylinux_2_28 lack, for the library in the wheel: the compiler
// that builds it is newer, and takes the newest version of a symbol.
//
// Each definition is hidden, and takes the place of the newer symbol in this library alone. The
// assembler's names are given, so that no header's declaration of the same function is in the way.
#include <new>

#define NPU_PRECISION_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

// glibc 2.29: exp and log that do not set the SVID error state. The former ones compute the same.
double FormerExp(double x);
double FormerLog(double x);
__asm__(".symver FormerExp, exp@GLIBC_2.2.5");
__asm__(".symver FormerLog, log@GLIBC_2.2.5");
NPU_PRECISION_HIDDEN double Exp(double x) __asm__("exp");
NPU_PRECISION_HIDDEN double Log(double x) __asm__("log");
double Exp(double x) { return FormerExp(x); }
double Log(double x) { return FormerLog(x); }

// glibc 2.33: stat is a function. Before, headers called this one with the version of the struct.
int FormerStat(int version, const char* path, void* result);
__asm__(".symver FormerStat, __xstat@GLIBC_2.2.5");
NPU_PRECISION_HIDDEN int Stat(const char* path, void* result) __asm__("stat");
int Stat(const char* path, void* result) {
  constexpr int kVersion = 1;  // on x86-64
  return FormerStat(kVersion, path, result);
}

// glibc 2.32: whether shared_ptr may count without atomic operations. It may not: TensorFlow has
// threads.
extern NPU_PRECISION_HIDDEN char single_threaded __asm__("__libc_single_threaded");
char single_threaded = 0;

// libstdc++ of GCC 11.
[[noreturn]] NPU_PRECISION_HIDDEN void ThrowBadArrayNewLength() __asm__(
    "_ZSt28__throw_bad_array_new_lengthv");
void ThrowBadArrayNewLength() { throw std::bad_array_new_length(); }

}  // extern "C"
