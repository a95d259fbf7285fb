#include "data/byte_segments.h"

#include <algorithm>

#include "core/error.h"
#include "data/task_record.h"

namespace longshot {

void SegmentOptions::fields(FieldVisitor& visit) {
  visit.field("objective", objective, "predict the next byte, or bytes hidden behind a mask",
              one_of({"causal", "masked"}));
  visit.field("mask_fraction", mask_fraction, "share of bytes hidden, for objective = \"masked\"",
              between(0.0, 1.0));
  visit.field("evaluate_bytes", evaluate_bytes,
              "evaluate on so many bytes from the start of a split; 0: all of it", at_least(0));
}

SplitBytes split_by_position(std::span<const uint8_t> text, double valid_fraction,
                             double test_fraction) {
  if (!(valid_fraction >= 0) || !(test_fraction >= 0) || !(valid_fraction + test_fraction < 1))
    throw UsageError(
        fmt::format("task: valid_fraction = {} and test_fraction = {} leave nothing to train on",
                    valid_fraction, test_fraction));
  const size_t valid = size_t(double(text.size()) * valid_fraction);
  const size_t test = size_t(double(text.size()) * test_fraction);
  const size_t train = text.size() - valid - test;
  return {text.first(train), text.subspan(train, valid), text.last(test)};
}

ByteSegments::ByteSegments(const SegmentOptions& options)
    : options_(options), causal_(options.objective == "causal") {}

void ByteSegments::set_bytes(const SplitBytes& bytes, const std::string& name,
                             const TaskRecord* record) {
  bytes_ = bytes;
  evaluation_only_ = record != nullptr;
  name_ = name;
  if (options_.evaluate_bytes > 0) {
    const size_t most = size_t(options_.evaluate_bytes);
    bytes_.validation = bytes_.validation.first(std::min(most, bytes_.validation.size()));
    bytes_.test = bytes_.test.first(std::min(most, bytes_.test.size()));
  }
  for (const Split split : {Split::train, Split::test})
    if (predictions(split) < 1 && !(evaluation_only_ && split == Split::train))
      throw UsageError(fmt::format("{}: the {} part has {} bytes; it needs at least {}", name_,
                                   name_of(split), this->bytes(split).size(), causal_ ? 2 : 1));
}

TaskSpec ByteSegments::spec() const {
  TaskSpec spec;
  spec.input_vocabulary = 257;
  spec.output_classes = 256;
  spec.padding_token = kSpecialToken;
  spec.output = Output::per_token;
  spec.causal = causal_;
  spec.bytes = true;
  spec.windowed = true;
  spec.fixed_samples = true;
  spec.chance = 1.0 / 256;
  spec.chance_reason = "one of 256 bytes guessed";
  for (int byte = 0; byte < 256; ++byte) spec.input_symbols.push_back(char(byte));
  spec.output_symbols = spec.input_symbols;
  return spec;
}

TaskRecord ByteSegments::record() const {
  TaskRecord record;
  record.spec = spec();
  bool seen[256] = {};
  for (const uint8_t byte : bytes_.train) seen[byte] = true;
  for (int32_t byte = 0; byte < 256; ++byte)
    if (seen[byte]) record.seen.push_back(byte);
  if (!causal_) record.seen.push_back(int32_t(kSpecialToken));
  record.from_options = false;
  return record;
}

std::span<const uint8_t> ByteSegments::bytes(Split split) const {
  return split == Split::train        ? bytes_.train
         : split == Split::validation ? bytes_.validation
                                      : bytes_.test;
}

int64_t ByteSegments::predictions(Split split) const {
  const int64_t size = int64_t(bytes(split).size());
  return causal_ ? std::max<int64_t>(size - 1, 0) : size;
}

int64_t ByteSegments::max_length() const {
  const int64_t test = predictions(Split::test);
  const int64_t needed = evaluation_only_ ? test : std::min(predictions(Split::train), test);
  const int64_t validation = predictions(Split::validation);
  return validation > 0 ? std::min(needed, validation) : needed;
}

int64_t ByteSegments::count(Split split, int64_t length, int64_t stride) const {
  if (split == Split::train) return kUnlimited;
  LONGSHOT_CHECK(length >= 1 && stride >= 0, "{}: windows of {} bytes, {} apart", name_, length,
                 stride);
  const int64_t available = predictions(split);
  if (available < length) return 0;
  const int64_t step = stride == 0 ? length : std::min(stride, length);
  return 1 + (available - length + step - 1) / step;
}

void ByteSegments::example(const ExampleKey& key, Example& out) const {
  out.clear();
  RandomSequence random = example_random(key);
  const std::span<const uint8_t> text = bytes(key.split);
  const int64_t available = predictions(key.split), length = key.length;
  if (length < 1 || length > available)
    throw UsageError(fmt::format("{}: a segment of {} bytes does not fit into the {} part's {}",
                                 name_, length, name_of(key.split), text.size()));

  int64_t start = 0,
          first_new = 0;  // first_new: index in the window of the first scored prediction
  if (key.split == Split::train) {
    start = random.between(0, available - length);
  } else {
    const int64_t windows = count(key.split, length, key.stride);
    LONGSHOT_CHECK(key.index < uint64_t(windows), "{}: window {} of {}", name_, key.index, windows);
    const int64_t step = key.stride == 0 ? length : std::min(key.stride, length);
    const int64_t index = int64_t(key.index);
    // Only the last window can reach beyond the end, so the one before it ends where it should.
    start = std::min(index * step, available - length);
    if (index > 0) first_new = (index - 1) * step + length - start;
  }

  const uint8_t* window = text.data() + start;
  out.input.assign(window, window + length);
  out.target.assign(size_t(length), -1);
  if (causal_) {
    for (int64_t i = first_new; i < length; ++i) out.target[size_t(i)] = window[i + 1];
  } else {
    // A window without any target would teach and measure nothing, so at least one new byte is
    // hidden.
    const int64_t always = random.between(first_new, length - 1);
    for (int64_t i = 0; i < length; ++i) {
      const bool hidden = random.uniform() < options_.mask_fraction || i == always;
      if (!hidden) continue;
      out.input[size_t(i)] = int32_t(kSpecialToken);
      if (i >= first_new) out.target[size_t(i)] = window[i];
    }
  }
  out.scored.resize(size_t(length));
  for (int64_t i = 0; i < length; ++i) out.scored[size_t(i)] = out.target[size_t(i)] >= 0;
}

}  // namespace longshot
