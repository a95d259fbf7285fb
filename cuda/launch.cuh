// The only file that knows which compiler is at work: nvcc for a GPU, or an ordinary C++ compiler
// with the tests' emulator first on the include path.
//
// launch(name, kernel, grid, block, shared_bytes, stream, arguments...)  returns cudaError_t
// LONGSHOT_DYNAMIC_SHARED(T, name);       T* name: the launch's dynamic shared memory
// LONGSHOT_SHARED(T, name, count);        T* name: `count` elements of static shared memory
// LONGSHOT_UNROLL                         unrolls the loop that follows
#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <utility>

#if defined(__CUDACC__)

#define LONGSHOT_UNROLL _Pragma("unroll")
#define LONGSHOT_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char longshot_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(longshot_dynamic_shared)
#define LONGSHOT_SHARED(T, name, count)           \
  __shared__ __align__(16) T name##_array[count]; \
  T* const name = name##_array

namespace longshot::cuda {
template <class... P, class... A>
cudaError_t launch(const char*, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, A&&... arguments) {
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<P>(std::forward<A>(arguments))...);
  return cudaGetLastError();
}
}  // namespace longshot::cuda

#else

#define LONGSHOT_UNROLL
#define LONGSHOT_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(emulator::dynamic_shared())
#define LONGSHOT_SHARED(T, name, count) \
  static const char name##_key = 0;     \
  T* const name =                       \
      static_cast<T*>(emulator::scheduler().static_shared(&name##_key, sizeof(T) * (count)))

namespace longshot::cuda {
template <class... P, class... A>
cudaError_t launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
                   size_t shared_bytes, cudaStream_t stream, A&&... arguments) {
  return emulator::launch(name, kernel, grid, block, shared_bytes, stream,
                          std::forward<A>(arguments)...);
}
}  // namespace longshot::cuda

#endif
