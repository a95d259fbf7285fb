// task.json: what is written is read back, for every registered task.
#include "data/task_record.h"

#include "core/error.h"
#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("every task's record survives its file", "[data]") {
  for (const auto& entry : Registry<Task>::instance().entries()) {
    if (entry.name == "jsonl" || entry.name == "text") continue;  // made in their own tests
    INFO(entry.name);
    const auto task = make(entry.name);
    const TaskRecord record = task->record();
    const std::string text = to_json(record);
    const TaskRecord back = parse_task_record(text, "task.json");
    CHECK(to_json(back) == text);
    CHECK(back.spec.input_vocabulary == task->spec().input_vocabulary);
    CHECK(back.spec.output == task->spec().output);
    CHECK(back.spec.input_symbols == task->spec().input_symbols);
    CHECK(back.spec.separator_token == task->spec().separator_token);
    CHECK(back.from_options == (entry.name != "synthetic_text"));
  }
}

TEST_CASE("a record that cannot be read names its file", "[data]") {
  for (const char* text : {"", "{", "[]", "{\"format\": 2}", "{\"format\": 1}"}) {
    INFO(text);
    try {
      parse_task_record(text, "run/task.json");
      FAIL("accepted");
    } catch (const UsageError& error) {
      CHECK_THAT(error.what(), ContainsSubstring("run/task.json: "));
    }
  }
}

TEST_CASE("lengths of answers that no example has", "[data]") {
  OutputLengths lengths;
  lengths.add(2, 2);
  lengths.add(3, 3);
  CHECK(lengths(5) == 5);  // always as many as inputs
  lengths.add(3, 4);
  CHECK(lengths(3) == 4);
  CHECK(lengths(5) == 4);  // the most there is
}

}  // namespace
}  // namespace longshot::test
