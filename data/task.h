// Tasks: what the model is shown, what it must answer, and how that is scored.
//
// An example is a pure function of (seed, split, length, index). Training, validation and test
// draw from streams that never meet, whatever their seeds. `length` is the task's own measure n
// (symbols of the string, digits of a number, bytes of a segment); the model sees
// model_length(n) tokens.
//
// One task is one file, data/tasks/<name>.cpp: an options struct, a class and a RegisterType line.
// data/batcher.h turns examples into batches.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/config.h"
#include "core/random.h"
#include "core/registry.h"

namespace longshot {

enum class Split : uint8_t { train = 0, validation = 1, test = 2 };
const char* name_of(Split split);

// Where the model's predictions are read.
enum class Output : uint8_t {
  placeholders,  // m copies of the placeholder token follow the input; one prediction at each
  per_token,     // the last m of the input's own positions (all of them, or the answer's)
  last_token,    // one prediction, at the last real token (per_token with m = 1)
  first_token,   // one prediction, at token 0
  mean,          // one prediction, from the mean over the sequence's real positions
};
const char* name_of(Output output);

// What a model must be shaped like for a task, and how its score is to be read.
// The loss is cross-entropy over `output_classes` logits a prediction, averaged over all targets
// that are not -1. (With two classes that is the logistic loss of the logits' difference.)
struct TaskSpec {
  int64_t input_vocabulary = 0;  // token ids the model may see, every special token included
  int64_t output_classes = 0;
  int64_t placeholder_token = -1;  // -1 unless output == placeholders
  int64_t padding_token = 0;       // fills padded rows; always a valid id (padded keys are masked)
  // What is put around the part of the input that a person writes (the prompt); -1: nothing.
  int64_t begin_token = -1;         // before it: BEGIN of causal tasks, CLS
  int64_t separator_token = -1;     // after it: the model then writes an answer, token by token
  int64_t end_token = -1;           // the answer's last class, where answers end with one
  bool answer_length_known = true;  // answer_tokens() is exact, not only an upper bound
  Output output = Output::placeholders;
  bool causal = false;         // targets are later inputs: only a causal model may be trained on it
  bool bytes = false;          // a target is a byte: perplexity and bits per byte are meaningful
  bool windowed = false;       // evaluation slides a window over one text; a stride has a meaning
  bool exact_match = false;    // the headline score is the whole sequence right, not each token
  bool fixed_samples = false;  // validation and test samples are the same for every seed: own data
  double chance = 0;           // per-token accuracy of guessing
  std::string chance_reason;   // how it is computed, in words
  std::string level;           // "R", "DCF", "CS" (Chomsky hierarchy), or "" where it says nothing
  std::string input_symbols;   // one character per input id, "" where ids have no characters;
  std::string output_symbols;  //   special tokens beyond the string's end have none
  std::vector<int32_t> input_points;  // code points instead, where a byte does not hold each
  std::vector<int32_t> output_points;
  // The model writes its answer after the prompt, a token at a time.
  bool answers() const { return separator_token >= 0; }
};

// Names one example. `stride` is for windowed tasks (TaskSpec::windowed) in evaluation: how far
// consecutive windows are apart, 0 for the whole length; it never enters a random draw.
struct ExampleKey {
  uint64_t seed = 0;
  Split split = Split::train;
  int64_t length = 1;
  uint64_t index = 0;
  int64_t stride = 0;
};

// One example. `target[k]` is the class wanted of prediction k, -1 where there is no loss.
// Predictions belong to the appended placeholders (Output::placeholders; `input` is without them),
// or to the last target.size() positions of `input` (per_token, last_token), or to the one pooled
// output.
// `scored[k]` = 1 where accuracy counts (a loss may be taken elsewhere); 0 where target is -1.
struct Example {
  std::vector<int32_t> input;
  std::vector<int32_t> target;
  std::vector<uint8_t> scored;
  void clear() { input.clear(), target.clear(), scored.clear(); }
  void predict(int32_t wanted, bool score = true) {
    target.push_back(wanted);
    scored.push_back(score && wanted >= 0);
  }
};

// So many samples of one length: how an in-range evaluation is made up.
struct LengthShare {
  int64_t length = 0;
  int64_t samples = 0;
  bool operator==(const LengthShare&) const = default;
};

struct TaskRecord;

class Task {
 public:
  // What was recorded of the task when a run started, or null: with it, a task of files is made for
  // evaluation alone and opens only the files of the test split. Other tasks have no use for it.
  using Arguments = std::tuple<const TaskRecord*>;
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  virtual ~Task() = default;

  virtual TaskSpec spec() const = 0;
  // Fills `out` (cleared first; its memory is reused). Safe to call from several threads.
  virtual void example(const ExampleKey& key, Example& out) const = 0;

  // Tokens of the input without placeholders, and predictions, at length n: exact for generated
  // tasks unless the file says "at most", upper bounds for data from files.
  virtual int64_t input_length(int64_t length) const { return length; }
  virtual int64_t output_length(int64_t length) const = 0;
  // Predictions for a prompt of so many tokens: what is appended as placeholders, or the most that
  // a model that writes its answer may write, the end token included.
  virtual int64_t answer_tokens(int64_t prompt) const { return output_length(prompt); }
  // Tokens the model sees: what capacities and memory are reserved for.
  int64_t model_length(int64_t length) const;

  virtual int64_t min_length() const { return 1; }
  virtual int64_t max_length() const { return kUnlimited; }

  // Data from files is finite: how many examples of exactly this length a split holds (windows of
  // this length and stride, for windowed tasks). Index i then means example i of those, and an
  // evaluation goes through min(samples, count). Generated tasks have kUnlimited.
  virtual int64_t count(Split, int64_t /*length*/, int64_t /*stride*/ = 0) const {
    return kUnlimited;
  }
  // The lengths that occur, ascending, for data whose sequences have lengths of their own; empty
  // for tasks that make any length.
  virtual std::vector<int64_t> lengths(Split) const { return {}; }

  // What predicting needs to know of the task when its data is gone (data/task_record.h).
  virtual TaskRecord record() const;

  // The training distribution of lengths in [low, high]: uniform, unless the data decides.
  virtual int64_t draw_length(RandomSequence& random, int64_t low, int64_t high) const;
  // The same distribution as an evaluation plan of `samples` samples, by length, ascending: what to
  // ask of a split, which may hold fewer (count). Default: shares that differ by at most one; with
  // fewer samples than lengths, evenly spaced ones.
  virtual std::vector<LengthShare> in_range(Split split, int64_t low, int64_t high,
                                            int64_t samples) const;
};

// The random numbers of one example: (split, length) select the Philox stream, index the step.
// Length is at most kLongestGenerated.
inline constexpr int64_t kLongestGenerated = (int64_t(1) << 22) - 1;
RandomSequence example_random(const ExampleKey& key);

// A task by its registered name, from its config table (key "type" is ignored there).
std::unique_ptr<Task> make_task(const std::string& type, const ConfigTable& table,
                                const TaskRecord* record = nullptr);

// For tasks without options.
struct NoTaskOptions {
  void fields(FieldVisitor&) {}
};

}  // namespace longshot
