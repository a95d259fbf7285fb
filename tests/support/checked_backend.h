// CheckedBackend: two backends side by side, through a real model. Every operation runs on both, on
// equal memory; the first one whose results disagree ends the step with an Error that names it, its
// shapes, the element and the error.
//
//   CheckedBackend checked(cpu, cuda);
//   Context context(checked);   // and any model, optimizer, training step on it
//
// It needs to know no operation: what one wrote is found by comparing all memory before and after,
// so a write to a wrong place shows as well. For small models only. After each operation the tested
// side gets the trusted side's numbers: rounding does not add up, a fault is seen where it happens.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "tests/support/argument_pointers.h"
#include "tests/support/every_method.h"

namespace longshot::testing {

// The shapes of a call in words.
std::string describe(const GemmArgs&);
std::string describe(const HeadsArgs&);
std::string describe(const PermuteArgs&);
std::string describe(const CopyChunksArgs&);
std::string describe(const GatherArgs&);
std::string describe(const GatherBackwardArgs&);
std::string describe(const RotateArgs&);
std::string describe(const AttentionArgs&);
std::string describe(const AttentionBackwardArgs&);
template <class Args>
std::string describe(const Args& args);  // the others have rows and columns, or a plain count

class CheckedBackend final : public EveryMethod<CheckedBackend> {
 public:
  CheckedBackend(Backend& trusted, Backend& tested, double tolerance = 2e-5)
      : trusted_(trusted), tested_(tested), tolerance_(tolerance) {}
  ~CheckedBackend() override;

  int64_t operations() const { return operations_; }
  double largest_error() const { return largest_error_; }  // relative, of all results so far
  const std::string& least_exact() const { return least_exact_; }  // the operation it belongs to

  const char* name() const override { return "checked"; }
  std::string description() const override {
    return std::string(tested_.name()) + " checked against " + trusted_.name();
  }
  bool supports(DType type) const override { return type == DType::f32; }
  bool host_accessible() const override { return false; }
  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) override;
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes) override;
  void fill_zero(void* device, size_t bytes) override;
  void synchronize() override;

  template <class Args>
  void call(const char* name, void (Backend::*method)(const Args&), const Args& args) {
    Args translated = args;
    for_each_pointer(translated, [this](auto*& pointer) {
      pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(counterpart(pointer));
    });
    (trusted_.*method)(args);
    (tested_.*method)(translated);
    compare(name, describe(args), formats(args));
  }

 private:
  struct Block {
    char* tested = nullptr;
    std::vector<unsigned char> image;  // what both sides held after the last operation
  };
  // Results that are no floats: doubles at these addresses, or whole numbers throughout.
  struct Formats {
    std::vector<const void*> doubles;
    bool whole = false;
  };
  template <class Args>
  static Formats formats(const Args& args) {
    Formats result;
    result.whole = std::is_same_v<Args, ArgmaxArgs> || args_dtype(args) == DType::i32;
    if constexpr (requires { args.denominator; }) result.doubles = {args.denominator};
    if constexpr (std::is_same_v<Args, ClipArgs>) result.doubles = {&args.update->squared_norm};
    return result;
  }
  template <class Args>
  static DType args_dtype(const Args& args) {
    if constexpr (requires { args.forward; })
      return args.forward.dtype;
    else
      return args.dtype;
  }

  void* counterpart(const void* pointer) const;  // null: not ours
  void compare(const char* name, const std::string& shapes, const Formats& formats);

  Backend& trusted_;
  Backend& tested_;
  double tolerance_;
  std::map<char*, Block> blocks_;              // by the trusted side's address
  std::vector<unsigned char> expected_, got_;  // of one block; kept, as there are many operations
  int64_t operations_ = 0;
  double largest_error_ = 0;
  std::string least_exact_;
};

template <class Args>
std::string describe(const Args& args) {
  if constexpr (requires {
                  args.outer;
                  args.reduced;
                })
    return fmt::format("outer {}, reduced {}, inner {}", args.outer, args.reduced, args.inner);
  else if constexpr (requires {
                       args.outer;
                       args.repeat;
                     })
    return fmt::format("outer {}, repeat {}, inner {}", args.outer, args.repeat, args.inner);
  else if constexpr (requires {
                       args.count;
                       args.columns;
                     })
    return fmt::format("ids {}, table {} x {}", args.count, args.rows, args.columns);
  else if constexpr (requires {
                       args.rows;
                       args.columns;
                     })
    return fmt::format("{} x {}", args.rows, args.columns);
  else
    return fmt::format("{} elements", args.n);
}

}  // namespace longshot::testing
