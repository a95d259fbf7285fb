// One method of a backend called with arrays in host memory, for tests of what a kernel computes:
// call_kernel(&Backend::softmax, args). The backend is the one that tests run on
// (operation_devices.h). Where it cannot read host memory the arrays travel: each to a block of
// its own between guard bytes, and back.
#pragma once

#include <cstring>
#include <map>
#include <type_traits>
#include <vector>

#include "tests/catch.h"
#include "tests/support/argument_arrays.h"
#include "tests/support/operation_devices.h"

namespace longshot::testing {

// Blocks on a device for arrays of the host.
class StagedArrays {
 public:
  explicit StagedArrays(Backend& backend) : backend_(backend) {}
  ~StagedArrays();
  StagedArrays(const StagedArrays&) = delete;
  StagedArrays& operator=(const StagedArrays&) = delete;

  // Two arrays that begin at one place are one array, as where a method writes over its input.
  void want(const void* host, size_t bytes, bool written);
  void upload();
  void* on_device(const void* host) const { return arrays_.at(host).block + kGuard; }
  void download() const;  // what was written; fails the test where a guard was

 private:
  static constexpr size_t kGuard = 256;
  struct Array {
    size_t bytes = 0;
    bool written = false;
    char* block = nullptr;
  };
  Backend& backend_;
  std::map<const void*, Array> arrays_;
};

template <class Args>
DType& type_of(Args& args) {
  if constexpr (requires { args.forward; })
    return args.forward.dtype;
  else
    return args.dtype;
}

template <class Args>
void call_kernel(void (Backend::*method)(const Args&), const std::type_identity_t<Args>& args) {
  Args moved = args;
  const DType dtype = type_of(moved);
  Backend& backend = backend_for(dtype);
  if (backend.host_accessible()) return (backend.*method)(args);
  StagedArrays arrays(backend);
  for_each_array(moved, [&](auto*& pointer, int64_t elements) {
    using Pointed = std::remove_reference_t<decltype(*&pointer)>;
    using Element = std::remove_pointer_t<Pointed>;
    if constexpr (std::is_void_v<Element>)
      arrays.want(pointer, size_t(elements * size_of(dtype)), !std::is_const_v<Element>);
    else
      arrays.want(pointer, size_t(elements) * sizeof(Element), !std::is_const_v<Element>);
  });
  arrays.upload();
  for_each_array(moved, [&](auto*& pointer, int64_t) {
    if (pointer != nullptr)
      pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(arrays.on_device(pointer));
  });
  (backend.*method)(moved);
  arrays.download();
}
// For arguments whose type has not been filled in.
template <class T, class Args>
void call_kernel(void (Backend::*method)(const Args&), const std::type_identity_t<Args>& args) {
  Args typed = args;
  type_of(typed) = dtype_of<T>();
  call_kernel(method, typed);
}

}  // namespace longshot::testing
