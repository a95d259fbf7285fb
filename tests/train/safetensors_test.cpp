// The safetensors reader believes nothing, the writer follows the format byte for byte.
#include "train/safetensors.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

std::string folder() {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("longshot-safetensors-{}", getpid()))
          .string();
  std::filesystem::create_directories(path);
  return path;
}

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

std::string message_of(const std::string& bytes) {
  try {
    SafetensorsFile::parse(bytes, "x.safetensors");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

template <size_t N>
std::span<const std::byte> bytes(const float (&values)[N]) {
  return std::as_bytes(std::span(values));
}

}  // namespace

TEST_CASE("an empty safetensors file is {} and six blanks", "[safetensors]") {
  const std::string path = folder() + "/empty.safetensors";
  write_safetensors(path, {}, {});
  const std::string content = read_file(path);
  CHECK(content == file_of("{}      ", ""));
  CHECK(SafetensorsFile::open(path).entries().empty());
}

// Byte vectors of the reference implementation, as its own tests state them.
TEST_CASE("written headers have the documented sizes and padding", "[safetensors]") {
  const std::string path = folder() + "/bytes.safetensors";
  write_safetensors(path, {}, {{"framework", "pt"}});
  CHECK(read_file(path) == file_of("{\"__metadata__\":{\"framework\":\"pt\"}}     ", ""));
  const float six[] = {1, 2, 3, 4, 5, 6};
  write_safetensors(path, {{"attn.0", "F32", {1, 2, 3}, bytes(six)}}, {});
  std::string content = read_file(path);
  CHECK(uint8_t(content[0]) == 64);  // no padding needed
  CHECK(content.substr(8, 64) ==
        "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]}}");
  const float four[] = {1, 2, 3, 4};
  write_safetensors(path, {{"attn0", "F32", {1, 1, 2, 2}, bytes(four)}}, {});
  content = read_file(path);
  CHECK(uint8_t(content[0]) == 72);  // 65 characters and 7 blanks
  CHECK(content.substr(8 + 65, 7) == "       ");
}

TEST_CASE("tensors come back with names, shapes and bytes", "[safetensors]") {
  const std::string path = folder() + "/round.safetensors";
  const float a[] = {1.5f, -2, 3, 4, 5, 6};
  const float b[] = {7};
  write_safetensors(
      path,
      {{"b", "F32", {}, bytes(b)}, {"a", "F32", {2, 3}, bytes(a)}, {"none", "F32", {0, 4}, {}}},
      {{"note", "a \"quoted\" text"}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  CHECK(file.metadata().at("note") == "a \"quoted\" text");
  REQUIRE(file.entries().size() == 3);
  const SafetensorsEntry* entry = file.find("a");
  REQUIRE(entry != nullptr);
  CHECK(entry->shape == std::vector<int64_t>{2, 3});
  CHECK(std::memcmp(file.bytes(*entry).data(), a, sizeof a) == 0);
  CHECK(file.find("b")->shape.empty());
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("damaged safetensors files are refused with a reason", "[safetensors]") {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(message_of(file_of(good, std::string(8, 'x'))).empty());
  const auto refuses = [](const std::string& file, const char* reason) {
    INFO(message_of(file));
    CHECK_THAT(message_of(file), ContainsSubstring(reason));
    CHECK_THAT(message_of(file), ContainsSubstring("x.safetensors"));
  };
  refuses("", "too short");
  refuses("1234567", "too short");
  refuses(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}", "too large");
  refuses(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}", "claims 16 bytes");
  refuses(file_of("{", ""), "not JSON");
  refuses(file_of("{\"\xff\": {}}", ""), "not JSON");
  refuses(file_of("[]", ""), "not a JSON object");
  refuses(file_of(good, std::string(7, 'x')), "take 8 bytes, the file holds 7");
  refuses(file_of(good, std::string(9, 'x')), "take 8 bytes, the file holds 9");
  refuses(
      file_of(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
          std::string(8, 'x')),
      "stands twice");
  refuses(file_of(R"({"a":{"dtype":"F32","shape":[2]}})", ""), "tensor \"a\": needs dtype");
  refuses(file_of(R"({"a":{"dtype":"X32","shape":[2],"data_offsets":[0,8]}})", std::string(8, 'x')),
          "unknown dtype");
  refuses(file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", std::string(8, 'x')),
          "need 12 bytes");
  refuses(
      file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", std::string(8, 'x')),
      "not a whole number");
  refuses(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", std::string(8, 'x')),
          "do not hold that");
  refuses(
      file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", std::string(12, 'x')),
      "a hole");
  refuses(
      file_of(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          std::string(12, 'x')),
      "an overlap");
  refuses(file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
                  std::string(8, 'x')),
          "overflows");
  refuses(file_of(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "x"),
          "whole number of bytes");
  // Lists that would take far more memory than the file: 2 bytes each there, 16 in memory.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "0,";
  refuses(file_of("{\"a\":[" + many + "0]}", ""), "too long");
  refuses(file_of("{\"a\":{\"shape\":[" + many + "0]}}", ""), "too long");
  refuses(file_of("{\"a\":[" + std::string(500, '[') + std::string(500, ']') + "]}", ""),
          "nested too deeply");
  refuses(file_of(R"({"__metadata__":{"a":1}})", ""), "metadata \"a\" is not text");
}

TEST_CASE("metadata may be null and tensors may have further fields", "[safetensors]") {
  const SafetensorsFile file = SafetensorsFile::parse(
      file_of(R"({"__metadata__":null,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],)"
              R"("note":{"by":["x",[1,{"deep":null}]]}}})",
              std::string(8, 'x')),
      "x.safetensors");
  CHECK(file.metadata().empty());
  REQUIRE(file.find("a") != nullptr);
  CHECK(file.bytes(*file.find("a")).size() == 8);
  CHECK(file.entries().size() == 1);
}

// B32: a write that fails leaves the old file and nothing under the final name or beside it.
TEST_CASE("a write cut short leaves the previous file (B32)", "[safetensors]") {
  const std::string path = folder() + "/cut.safetensors";
  const float old_values[] = {1, 2, 3};
  write_safetensors(path, {{"a", "F32", {3}, bytes(old_values)}}, {});
  const std::string before = read_file(path);

  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<float> many(10000, 1.0f);
  for (const rlim_t allowed : {rlim_t(0), rlim_t(10), rlim_t(100), rlim_t(5000)}) {
    rlimit small = limit;
    small.rlim_cur = allowed;
    setrlimit(RLIMIT_FSIZE, &small);
    bool failed = false;
    try {
      write_safetensors(path, {{"a", "F32", {10000}, std::as_bytes(std::span(many))}}, {});
    } catch (const Error&) {
      failed = true;
    }
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK(failed);
    CHECK(read_file(path) == before);
  }
  std::signal(SIGXFSZ, handler);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    files += entry.path().string().find("cut.safetensors") != std::string::npos;
  CHECK(files == 1);
}
