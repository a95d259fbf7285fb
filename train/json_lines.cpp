#include "train/json_lines.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <unistd.h>

#include "core/error.h"

namespace longshot {

JsonLines::JsonLines(const std::string& path, int64_t keep_bytes) : path_(path) {
  file_ = std::fopen(path.c_str(), "ab");
  if (file_ == nullptr) throw Error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  std::fseek(file_, 0, SEEK_END);
  const int64_t size = std::ftell(file_);
  if (size < keep_bytes) {
    std::fclose(file_);
    file_ = nullptr;
    throw Error(
        fmt::format("{}: holds {} bytes, the checkpoint knows of {}: the run folder is damaged",
                    path, size, keep_bytes));
  }
  if (ftruncate(fileno(file_), keep_bytes) != 0)
    throw Error(fmt::format("cannot cut {} back: {}", path, std::strerror(errno)));
  bytes_ = keep_bytes;
}

JsonLines::~JsonLines() {
  if (file_ != nullptr) std::fclose(file_);
}

void JsonLines::write(std::string_view object) {
  const bool failed = std::fwrite(object.data(), 1, object.size(), file_) != object.size() ||
                      std::fputc('\n', file_) == EOF || std::fflush(file_) != 0;
  if (failed) throw Error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  bytes_ += int64_t(object.size()) + 1;
}

void JsonLines::sync() {
  if (fdatasync(fileno(file_)) != 0)
    throw Error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
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
