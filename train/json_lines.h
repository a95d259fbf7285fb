// JsonLines: a file of JSON objects, one a line, that only grows and can be cut back to a known
// length (metrics.jsonl, timing.jsonl). Numbers keep all their digits; a value that is not finite
// becomes null.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longshot {

class JsonLines {
 public:
  // Opens for appending after cutting the file to the whole lines within its first `keep_bytes`.
  // Lines that are missing there (the file was shortened or deleted) are a gap that the log tells:
  // they are a record of training, which goes on without them.
  JsonLines(const std::string& path, int64_t keep_bytes);

  void write(std::string_view object);  // one line; flushed to the system
  void sync();                          // to the disk, before a checkpoint counts on these lines
  int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  int64_t bytes_ = 0;
};

// Builds one object by hand, in the order of the calls: {"step": 3, "loss": 0.5}.
class JsonObject {
 public:
  JsonObject& add(const char* key, double value);
  JsonObject& add(const char* key, int64_t value);
  JsonObject& add(const char* key, bool value);
  JsonObject& add(const char* key, std::string_view text);
  JsonObject& add_raw(const char* key, std::string_view json);  // already JSON
  std::string text() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  void begin(const char* key);
  std::string text_;
};

std::string json_number(double value);           // shortest text that reads back equal, or null
std::string json_string(std::string_view text);  // with quotes, escaped

}  // namespace longshot
