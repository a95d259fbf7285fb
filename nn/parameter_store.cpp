// Layout and initial values of the flat parameter buffers.
//
// Every parameter starts at a multiple of 16 elements, so that vector loads on a parameter are
// aligned. The gaps hold zeros in all four buffers and stay zero: their gradient is zero, hence so
// is their update.
#include "nn/parameter_store.h"

#include <algorithm>

#include "core/random.h"

namespace longshot {

namespace {

constexpr int64_t kAlignment = 16;  // elements; 64 bytes in f32

int64_t align(int64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

// A stream that belongs to this name alone: 24 bits of the name's hash go to the stream, 32 others
// to the step (which initialisation does not use).
RandomKey initial_key(uint64_t seed, const std::string& name) {
  const uint64_t hash = hash_name(name.data(), name.size());
  return {seed, RandomPurpose::initialize, uint32_t(hash & 0xFFFFFF), uint32_t(hash >> 32)};
}

void fill_initial(std::span<double> values, const Initializer& initializer, const RandomKey& key) {
  RandomSequence random(key);
  for (double& value : values) {
    switch (initializer.kind) {
      case Initializer::Kind::constant:
        value = initializer.scale;
        break;
      case Initializer::Kind::normal:
        value = initializer.scale * random.normal();
        break;
      case Initializer::Kind::truncated_normal:
        value = initializer.scale * random.truncated_normal();
        break;
      case Initializer::Kind::uniform:
        value = initializer.scale * (2.0 * random.uniform() - 1.0);
        break;
    }
  }
}

}  // namespace

const Tensor& Parameter::tensor() const {
  LONGSHOT_CHECK(entry_ != nullptr,
                 "parameter: used without having been declared in a ParameterStore");
  LONGSHOT_CHECK(entry_->tensor.defined(),
                 "parameter {} {}: used before ParameterStore::place() gave it storage",
                 entry_->name, entry_->shape.to_string());
  return entry_->tensor;
}

ParameterStore::ParameterStore(Context& context) : context_(context) {}

Parameter ParameterStore::declare(const std::string& name, const Shape& shape,
                                  Initializer initializer, bool decay) {
  LONGSHOT_CHECK(!placed_, "parameter {} {}: declared after ParameterStore::place()", name,
                 shape.to_string());
  LONGSHOT_CHECK(find(name) == nullptr, "parameter {} {}: the name is declared twice", name,
                 shape.to_string());
  entries_.push_back({name, shape, initializer, decay, 0, {}});
  Parameter parameter;
  parameter.entry_ = &entries_.back();
  return parameter;
}

void ParameterStore::place(uint64_t seed) {
  LONGSHOT_CHECK(!placed_, "ParameterStore::place: called twice");
  placed_ = true;
  int64_t offset = 0;
  for (const bool decay : {true, false}) {
    for (Parameter::Entry& entry : entries_) {
      if (entry.decay != decay) continue;
      entry.offset = offset;
      offset = align(offset + entry.shape.elements());
    }
    if (decay) decayed_ = offset;
  }
  elements_ = offset;

  const char* const names[4] = {"parameters", "gradients", "first moments", "second moments"};
  for (int i = 0; i < 4; ++i) {
    buffers_[i] = context_.make({elements_}, context_.dtype(), Lifetime::persistent, names[i]);
    context_.fill(buffers_[i].data(), context_.dtype(), elements_, 0.0);
  }

  std::vector<double> values(size_t(elements_), 0.0);
  for (Parameter::Entry& entry : entries_)
    fill_initial(std::span(values).subspan(size_t(entry.offset), size_t(entry.shape.elements())),
                 entry.initializer, initial_key(seed, entry.name));
  if (context_.dtype() == DType::f64)
    buffers_[0].copy_from(std::span<const double>(values));
  else
    buffers_[0].copy_from(std::span<const float>(std::vector<float>(values.begin(), values.end())));

  const int64_t width = size_of(context_.dtype());
  for (Parameter::Entry& entry : entries_) {
    char* data = static_cast<char*>(buffers_[0].data()) + entry.offset * width;
    char* gradient = static_cast<char*>(buffers_[1].data()) + entry.offset * width;
    entry.tensor =
        context_.adopt(data, gradient, entry.shape, context_.dtype(), entry.name.c_str());
  }
}

int64_t ParameterStore::parameter_count() const {
  int64_t count = 0;
  for (const Parameter::Entry& entry : entries_) count += entry.shape.elements();
  return count;
}

void ParameterStore::begin_gradients() {
  for (Parameter::Entry& entry : entries_) entry.tensor.value().gradient_written = false;
}

void ParameterStore::continue_gradients() {
  for (Parameter::Entry& entry : entries_) entry.tensor.value().gradient_written = true;
}

void ParameterStore::finish_gradients() {
  for (Parameter::Entry& entry : entries_) {
    detail::Value& value = entry.tensor.value();
    if (value.gradient_written) continue;
    context_.fill(value.gradient, value.dtype, value.elements, 0.0);
    value.gradient_written = true;
  }
}

const Parameter::Entry* ParameterStore::find(std::string_view name) const {
  for (const Parameter::Entry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::vector<std::string> ParameterStore::names(bool decayed) const {
  std::vector<std::string> result;
  for (const Parameter::Entry& entry : entries_)
    if (entry.decay == decayed) result.push_back(entry.name);
  return result;
}

ModuleScope ModuleScope::sub(std::string_view name) const {
  return ModuleScope(*store_,
                     path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
}

Parameter ModuleScope::declare(std::string_view name, const Shape& shape, Initializer initializer,
                               bool decay) const {
  return store_->declare(sub(name).path(), shape, initializer, decay);
}

}  // namespace longshot
