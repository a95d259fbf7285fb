// What a task that lives on files knows from them, small enough to lie beside a trained model: with
// it `predict` needs no file, and an evaluation only those it evaluates. Written as task.json when
// a run starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/task.h"

namespace longshot {

// How many predictions an input of n tokens has, as far as examples tell.
struct OutputLengths {
  std::map<int64_t, int64_t> at;  // input tokens -> most predictions of the examples that have them
  bool as_inputs = true;          // all had as many predictions as input tokens
  int64_t most = 1;

  void add(int64_t inputs, int64_t outputs);
  // What the examples of this length have, or else `length` where that always held, or else `most`.
  int64_t operator()(int64_t length) const;
  bool operator==(const OutputLengths&) const = default;
};

struct TaskRecord {
  TaskSpec spec;
  std::vector<int32_t> seen;                 // input ids that the training split holds, ascending
  std::map<int64_t, int64_t> train_lengths;  // input tokens -> training examples, of own sequences
  OutputLengths outputs;
  // Of a task that can be made again from its options alone: then nobody needs the rest.
  bool from_options = true;
};

std::string to_json(const TaskRecord& record);
// UsageError "file: ..." for what is not a record.
TaskRecord parse_task_record(std::string_view text, const std::string& file);

// A task without examples: its shape alone.
class RecordedTask : public Task {
 public:
  explicit RecordedTask(TaskRecord record) : record_(std::move(record)) {}
  TaskSpec spec() const override { return record_.spec; }
  void example(const ExampleKey&, Example&) const override;
  int64_t output_length(int64_t length) const override;
  int64_t count(Split, int64_t, int64_t) const override { return 0; }
  std::vector<int64_t> lengths(Split split) const override {
    std::vector<int64_t> result;
    if (split == Split::train)
      for (const auto& [length, count] : record_.train_lengths) result.push_back(length);
    return result;
  }
  TaskRecord record() const override { return record_; }

 private:
  TaskRecord record_;
};

}  // namespace longshot
