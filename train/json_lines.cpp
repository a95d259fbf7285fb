#include "train/json_lines.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fmt/core.h>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/streams.h"

namespace longshot {

namespace {

// The end of the last whole line within the first `bytes`.
int64_t whole_lines(std::FILE* file, int64_t bytes) {
  while (bytes > 0) {
    std::fseek(file, bytes - 1, SEEK_SET);
    if (std::fgetc(file) == '\n') break;
    --bytes;
  }
  return bytes;
}

}  // namespace

JsonLines::JsonLines(const std::string& path, int64_t keep_bytes)
    : path_(path), file_(std::fopen(path.c_str(), "a+b")) {
  if (file_ == nullptr) throw FileError("cannot write", path, errno);
  std::fseek(file_.get(), 0, SEEK_END);
  const int64_t size = std::ftell(file_.get());
  bytes_ = whole_lines(file_.get(), std::min(size, keep_bytes));
  if (bytes_ < keep_bytes)
    log::warn(
        "{}: the checkpoint knows of {} bytes, and {} of them are there: the lines in between are "
        "lost, training goes on",
        path, keep_bytes, bytes_);
  if (ftruncate(fileno(file_.get()), bytes_) != 0) throw FileError("cannot cut back", path, errno);
}

void JsonLines::write(std::string_view object) {
  std::FILE* file = file_.get();
  const bool failed = std::fwrite(object.data(), 1, object.size(), file) != object.size() ||
                      std::fputc('\n', file) == EOF || std::fflush(file) != 0;
  if (failed) throw FileError("cannot write", path_, errno);
  bytes_ += int64_t(object.size()) + 1;
}

void JsonLines::sync() {
  if (fdatasync(fileno(file_.get())) != 0) throw FileError("cannot write", path_, errno);
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", int(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

void JsonObject::begin(const char* key) {
  text_ += text_.empty() ? "{\"" : ", \"";
  text_ += key;
  text_ += "\": ";
}

JsonObject& JsonObject::add(const char* key, double value) {
  return add_raw(key, json_number(value));
}
JsonObject& JsonObject::add(const char* key, int64_t value) {
  return add_raw(key, fmt::format("{}", value));
}
JsonObject& JsonObject::add(const char* key, bool value) {
  return add_raw(key, value ? "true" : "false");
}
JsonObject& JsonObject::add(const char* key, std::string_view text) {
  return add_raw(key, json_string(text));
}
JsonObject& JsonObject::add_raw(const char* key, std::string_view json) {
  begin(key);
  text_ += json;
  return *this;
}

}  // namespace longshot
