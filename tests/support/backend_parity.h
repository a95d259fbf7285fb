// Backend parity: every method of a backend against the reference, over generated odd shapes, with
// guard elements round every array. One function for any backend: the CPU's test and the CUDA
// backend's test call it.
#pragma once

#include <string>
#include <vector>

#include "core/backend.h"
#include "core/random.h"

namespace longshot::testing {

// Fails the running test at the first difference, naming method, arguments, array and element.
void check_backend_parity(Backend& tested, DType dtype, uint64_t seed = 1);

// The same arrays on the reference and on the backend under test.
class Parity {
 public:
  Parity(Backend& tested, DType dtype);
  ~Parity();
  Parity(const Parity&) = delete;
  Parity& operator=(const Parity&) = delete;

  using Array = size_t;
  static constexpr Array kNone = size_t(-1);
  Array floats(const std::vector<double>& values);  // rounded to the dtype
  Array random(int64_t n, double low = -1, double high = 1);
  // An output: random content when it will be added to, else NaN, so that what is not written
  // shows.
  Array output(int64_t n, bool accumulate = false);
  Array integers(const std::vector<int32_t>& values);
  Array random_integers(int64_t n, int32_t low, int32_t high);
  template <class T>
  Array object(const T& value) {  // doubles and states; not compared
    return add(&value, sizeof(T), Kind::raw);
  }

  // The pointers of one side. kNone is null.
  class Side {
   public:
    void* operator[](Array array) const;
    int32_t* ints(Array array) const { return static_cast<int32_t*>((*this)[array]); }
    template <class T>
    T* object(Array array) const {
      return static_cast<T*>((*this)[array]);
    }

   private:
    friend class Parity;
    const Parity* parity_ = nullptr;
    int which_ = 0;
  };

  // call(backend, side) on both sides; then all arrays and their guards are compared.
  template <class Call>
  void run(const std::string& what, const Call& call) {
    for (int which = 0; which < 2; ++which) call(*backends_[which], side(which));
    compare(what);
  }
  template <class T>
  T read(Array array, int which) const {
    T value;
    download(array, which, &value);
    return value;
  }

  DType dtype() const { return dtype_; }

 private:
  enum class Kind { floats, integers, raw };
  struct Entry {
    Kind kind;
    size_t bytes;
    void* block[2];
  };
  Array add(const void* content, size_t bytes, Kind kind);
  Side side(int which) const;
  void download(Array array, int which, void* to) const;
  void compare(const std::string& what) const;

  static constexpr size_t kGuard = 256;
  Backend* backends_[2];
  DType dtype_;
  std::vector<Entry> entries_;
  uint64_t next_seed_ = 1;
};

// Draws sizes: 0, 1, primes, multiples of tiles and their neighbours.
class SizeSource {
 public:
  explicit SizeSource(uint64_t seed) : random_({seed, RandomPurpose::test, 7, 0}) {}
  int64_t any() { return pick({0, 1, 2, 3, 5, 7, 13, 16, 17, 31, 33, 64, 67}); }
  int64_t some() { return pick({1, 2, 3, 5, 7, 13, 16, 17, 31, 33, 64, 67}); }
  int64_t large() { return pick({1, 15, 97, 128, 131, 257}); }
  int64_t small() { return pick({1, 2, 3}); }
  bool flip() { return random_.below(2) == 1; }
  int64_t pick(const std::vector<int64_t>& from) {
    return from[size_t(random_.below(from.size()))];
  }

 private:
  RandomSequence random_;
};

// The methods, in two halves.
void parity_of_simple_methods(Backend& tested, DType dtype, SizeSource& sizes);
void parity_of_fused_methods(Backend& tested, DType dtype, SizeSource& sizes);

}  // namespace longshot::testing
