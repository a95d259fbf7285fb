#include "core/files.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/catch.h"

using namespace longshot;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "longshot-files-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string text = name;
  for (char& c : text)
    if (c == '.') c = '-';
  return text;
}

}  // namespace

TEST_CASE("files: an error says what, which file and why, and whose fault it is") {
  const FileError full("cannot write", "/data/a", ENOSPC);
  CHECK(std::string(full.what()) == "cannot write /data/a: No space left on device");
  for (const int error : {ENOSPC, EDQUOT, EROFS, EIO})
    CHECK(FileError("cannot write", "a", error).of_the_disk());
  for (const int error : {EACCES, ENOENT, EISDIR, ENAMETOOLONG})
    CHECK_FALSE(FileError("cannot write", "a", error).of_the_disk());
  for (const int error : {EACCES, EPERM, EROFS})
    CHECK(FileError("cannot write", "a", error).of_permission());
  CHECK_FALSE(full.of_permission());
  CHECK_THROWS_AS(read_file("/not/there"), FileError);
  CHECK_THROWS_AS(AtomicFile("/not/there"), FileError);
}

TEST_CASE("files: only this host's abandoned files are removed") {
  const Folder folder;
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const std::string own = folder / fmt::format("a.json.{}.{}.partial", host(), dead);
  const std::string other = folder / fmt::format("a.json.{}x.{}.partial", host(), dead);
  const std::string alive = folder / fmt::format("a.json.{}.{}.partial", host(), getppid());
  const std::string nobody = folder / fmt::format("a.json.{}.partial", dead);  // before hosts
  for (const std::string& file : {own, other, alive, nobody}) write_file_atomically(file, "x");
  remove_abandoned_files(folder.path());
  CHECK_FALSE(file_exists(own));
  CHECK(file_exists(other));
  CHECK(file_exists(alive));
  CHECK(file_exists(nobody));

  // As a killed process leaves it.
  const pid_t killed = fork();
  if (killed == 0) {
    AtomicFile file(folder / "b");
    file.write("half");
    _exit(0);
  }
  waitpid(killed, nullptr, 0);
  const std::string left = folder / fmt::format("b.{}.{}.partial", host(), killed);
  CHECK(file_exists(left));
  remove_abandoned_files(folder.path());
  CHECK_FALSE(file_exists(left));
}

TEST_CASE("files: a name from a person is followed to what it means") {
  const Folder folder;
  const auto partials = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder.path()))
      count += entry.path().extension() == ".partial";
    return count;
  };
  SECTION("a link: its target is replaced, the link stays") {
    fs::create_directory(folder / "deep");
    write_file_atomically(folder / "deep/target", "old");
    fs::create_symlink("deep/target", folder / "first");
    fs::create_symlink("first", folder / "second");
    write_named_file(folder / "second", "new");
    CHECK(read_file(folder / "deep/target") == "new");
    CHECK(fs::read_symlink(folder / "first") == "deep/target");
    CHECK(fs::read_symlink(folder / "second") == "first");
    fs::create_symlink("not_yet", folder / "dangling");
    write_named_file(folder / "dangling", "made");
    CHECK(fs::is_symlink(folder / "dangling"));
    CHECK(read_file(folder / "not_yet") == "made");
  }
  SECTION("a FIFO is written into") {
    REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
    std::string got;
    std::thread reader([&] { got = read_file(folder / "fifo"); });
    write_named_file(folder / "fifo", "through");
    reader.join();
    CHECK(got == "through");
    CHECK(fs::is_fifo(folder / "fifo"));
  }
  SECTION("a device is written into") {
    write_named_file("/dev/null", "gone");
    CHECK(fs::is_character_file("/dev/null"));
    CHECK_THROWS_AS(write_named_file("/dev/full", "no room"), FileError);
    CHECK(fs::is_character_file("/dev/full"));
  }
  SECTION("a mistake in the name is its author's") {
    CHECK_THROWS_AS(write_named_file(folder / "no/such", "x"), UsageError);
    CHECK_THROWS_AS(write_named_file(folder.path(), "x"), UsageError);
    fs::create_symlink("loop", folder / "loop");
    CHECK_THROWS_AS(write_named_file(folder / "loop", "x"), UsageError);
  }
  CHECK(partials() == 0);
}
