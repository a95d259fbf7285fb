#include "data/sequence_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/alphabet.h"

namespace longshot {
namespace {

using nlohmann::json;

[[noreturn]] void fail_at(const std::string& file, int64_t line, const std::string& what) {
  throw UsageError(fmt::format("{}:{}: {}", file, line, what));
}

class LineReader {
 public:
  LineReader(SequenceSet& set, TargetShape shape, bool by_character)
      : set_(set), shape_(shape), by_character_(by_character) {}

  void read(std::string_view text, int64_t line) {
    line_ = line;
    json object;
    try {
      object = json::parse(text.begin(), text.end());
    } catch (const json::exception& error) {
      fail(fmt::format("not a JSON object: {}", error.what()));
    }
    if (!object.is_object())
      fail(fmt::format("must be an object with \"input\" and \"target\", got {}",
                       object.type_name()));
    SequenceRecord record;
    record.line = line;
    record.input_begin = set_.ids.size();
    append(object, "input", 0, set_.string_input);
    record.input_size = set_.ids.size() - record.input_begin;
    record.target_begin = set_.ids.size();
    append(object, "target", -1, set_.string_target);
    record.target_size = set_.ids.size() - record.target_begin;

    if (record.input_size == 0) fail("\"input\" is empty");
    if (record.target_size == 0) fail("\"target\" is empty");
    if (shape_ == TargetShape::per_token && record.target_size != record.input_size)
      fail(fmt::format("\"target\" has {} entries for {} input tokens; per_token needs one each",
                       record.target_size, record.input_size));
    if (shape_ == TargetShape::single && record.target_size != 1)
      fail(fmt::format("\"target\" has {} entries; per_sequence needs exactly one",
                       record.target_size));
    set_.records.push_back(record);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_at(set_.file, line_, what); }

  void append(const json& object, const char* key, int64_t smallest, bool& strings) {
    const auto found = object.find(key);
    if (found == object.end()) fail(fmt::format("\"{}\" is missing", key));
    const bool is_string = found->is_string();
    if (set_.records.empty()) strings = is_string;
    if (is_string != strings)
      fail(fmt::format("\"{}\" is {}, but the lines before have {}", key,
                       is_string ? "a string" : "not a string", strings ? "strings" : "ids"));
    if (is_string) {
      const std::string& text = found->get_ref<const std::string&>();
      if (by_character_) {
        append_code_points(text, set_.ids);  // JSON has refused what is no UTF-8
      } else {
        for (const char byte : text) set_.ids.push_back(uint8_t(byte));
      }
    } else if (found->is_array()) {
      for (size_t i = 0; i < found->size(); ++i)
        set_.ids.push_back(id((*found)[i], fmt::format("\"{}\"[{}]", key, i), smallest));
    } else if (smallest < 0 && found->is_number()) {
      set_.ids.push_back(id(*found, fmt::format("\"{}\"", key), smallest));
    } else {
      fail(
          fmt::format("\"{}\" must be a list of ids or a string, got {}", key, found->type_name()));
    }
  }

  int32_t id(const json& value, const std::string& where, int64_t smallest) const {
    if (!value.is_number_integer())
      fail(fmt::format("{} must be a whole number, got {}", where, value.dump(-1, ' ', true)));
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(kLargestId);
    const int64_t number = huge ? kLargestId + 1 : value.get<int64_t>();
    if (number < smallest || number > kLargestId)
      fail(
          fmt::format("{} is {}; ids go from {} to {}", where, value.dump(), smallest, kLargestId));
    return int32_t(number);
  }

  SequenceSet& set_;
  TargetShape shape_;
  bool by_character_;
  int64_t line_ = 0;
};

}  // namespace

void SequenceSet::fail(const SequenceRecord& record, const std::string& what) const {
  fail_at(file, record.line, what);
}

SequenceSet parse_sequences(std::string_view text, const std::string& file, TargetShape shape,
                            bool strings_by_character) {
  SequenceSet set;
  set.file = file;
  LineReader reader(set, shape, strings_by_character);
  int64_t line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    if (content.find_first_not_of(" \t\r") != std::string_view::npos) reader.read(content, line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (set.records.empty()) throw UsageError(fmt::format("{}: holds no sequences", file));
  return set;
}

std::vector<int32_t> map_characters(std::vector<SequenceSet>& sets) {
  std::vector<int32_t> alphabet;
  const auto each = [&](auto visit) {
    for (SequenceSet& set : sets)
      for (const SequenceRecord& record : set.records) {
        if (set.string_input)
          for (size_t i = 0; i < record.input_size; ++i) visit(set.ids[record.input_begin + i]);
        if (set.string_target)
          for (size_t i = 0; i < record.target_size; ++i) visit(set.ids[record.target_begin + i]);
      }
  };
  std::vector<bool> seen(0x110000);
  each([&](int32_t& id) { seen[size_t(id)] = true; });
  std::vector<int32_t> rank(seen.size());
  for (size_t point = 0; point < seen.size(); ++point)
    if (seen[point]) {
      rank[point] = int32_t(alphabet.size());
      alphabet.push_back(int32_t(point));
    }
  each([&](int32_t& id) { id = rank[size_t(id)]; });
  return alphabet;
}

}  // namespace longshot
