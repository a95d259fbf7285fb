// ParameterStore: every parameter of a model, by path name, in four flat buffers.
//
// Modules declare parameters while they are constructed; place() then lays out parameters,
// gradients and both Adam moments, each in one flat buffer, decayed parameters first. So optimizer
// step, gradient norm and checkpoint are each one pass. Initial values are a pure function of
// (seed, parameter name): adding a parameter leaves the others' values alone.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.h"
#include "core/tensor.h"

namespace longshot {

struct Initializer {
  enum class Kind { constant, normal, truncated_normal, uniform } kind = Kind::constant;
  double scale = 0;  // the constant; the standard deviation; uniform in [-scale, scale]
  static Initializer zeros() { return {Kind::constant, 0.0}; }
  static Initializer ones() { return {Kind::constant, 1.0}; }
  static Initializer constant(double value) { return {Kind::constant, value}; }
  static Initializer normal(double deviation) { return {Kind::normal, deviation}; }
  // Truncated at two `deviation`s, not rescaled.
  static Initializer truncated_normal(double deviation) {
    return {Kind::truncated_normal, deviation};
  }
  static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
};

// A declared parameter. Converts to its Tensor once the store is placed; before that, use is an
// Error naming it.
class Parameter {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    Initializer initializer;
    bool decay = false;
    int64_t offset = 0;  // in elements, in each flat buffer
    Tensor tensor;
  };

  Parameter() = default;
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }
  bool declared() const { return entry_ != nullptr; }

 private:
  friend class ParameterStore;
  const Entry* entry_ = nullptr;
};

class ParameterStore {
 public:
  explicit ParameterStore(Context& context);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // A name declared twice is an Error. `decay`: weight decay applies (matrices of linear maps and
  // embeddings; never biases, norm gains, learned scalars or tables of relative biases).
  Parameter declare(const std::string& name, const Shape& shape, Initializer initializer,
                    bool decay);
  // Lays out and initialises. Nothing can be declared afterwards.
  void place(uint64_t seed);
  bool placed() const { return placed_; }

  Context& context() const { return context_; }
  int64_t elements() const { return elements_; }  // of each flat buffer, alignment gaps included
  int64_t decayed_elements() const { return decayed_; }
  int64_t parameter_count() const;  // numbers that are trained, gaps not included
  // The flat buffers, each (elements) of the context's dtype, persistent.
  const Tensor& parameters() const { return buffers_[0]; }
  const Tensor& gradients() const { return buffers_[1]; }
  const Tensor& first_moments() const { return buffers_[2]; }
  const Tensor& second_moments() const { return buffers_[3]; }

  // Before an optimizer step's first micro-batch: the next contribution to each gradient writes.
  void begin_gradients();
  // Before a later micro-batch of the same optimizer step, when finish_gradients() followed the one
  // before: contributions add, also where that one was a replay which went past this store.
  void continue_gradients();
  // After a backward: parameters that nothing reached get gradient zero.
  void finish_gradients();

  // In order of declaration; entry.offset says where each lies in the flat buffers.
  const std::deque<Parameter::Entry>& entries() const { return entries_; }
  const Parameter::Entry* find(std::string_view name) const;
  std::vector<std::string> names(bool decayed) const;  // for the run's log

 private:
  Context& context_;
  std::deque<Parameter::Entry> entries_;
  Tensor buffers_[4];
  int64_t elements_ = 0, decayed_ = 0;
  bool placed_ = false;
};

// Where a module declares: a store and the module's path. ModuleScope(store,
// "block.3").sub("attention") .declare("weight", ...) declares "block.3.attention.weight".
class ModuleScope {
 public:
  explicit ModuleScope(ParameterStore& store, std::string path = "")
      : store_(&store), path_(std::move(path)) {}
  ModuleScope sub(std::string_view name) const;
  Parameter declare(std::string_view name, const Shape& shape, Initializer initializer,
                    bool decay) const;
  ParameterStore& store() const { return *store_; }
  Context& context() const { return store_->context(); }
  const std::string& path() const { return path_; }

 private:
  ParameterStore* store_;
  std::string path_;
};

}  // namespace longshot
