// The real program, run as a user runs it: arguments in, exit code and both outputs back. Each
// Folder is a fresh temporary folder that goes away with it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/error.h"
#include "core/files.h"

extern char** environ;

namespace longshot_test {

namespace fs = std::filesystem;

inline std::string program_path() {
  return LONGSHOT_BINARY_DIR "/longshot";
}

class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "longshot-cli-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw longshot::Error("cannot make a temporary folder");
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& content) const {
    longshot::write_file_atomically(*this / name, content);
    return *this / name;
  }

 private:
  std::string path_;
};

struct Outcome {
  int code = 0;
  std::string out, err;
  std::string all() const { return out + err; }
};

// A program that runs until it is waited for.
class Running {
 public:
  Running(const std::vector<std::string>& words, const std::string& input = "") {
    folder_.write("in", input);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, (folder_ / "in").c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, (folder_ / "out").c_str(), O_WRONLY | O_CREAT,
                                     0644);
    posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "err").c_str(), O_WRONLY | O_CREAT,
                                     0644);
    std::vector<std::string> copy = words;
    std::vector<char*> pointers;
    for (std::string& word : copy) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    // Whatever started the tests (nohup): the program sees signals as from a terminal.
    sigset_t usual;
    sigemptyset(&usual);
    for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGPIPE}) sigaddset(&usual, number);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    const int error =
        posix_spawnp(&process_, copy[0].c_str(), &actions, &attributes, pointers.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw longshot::Error("cannot start " + copy[0]);
  }
  ~Running() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  void signal(int number) const { kill(process_, number); }
  bool ended() {
    if (process_ > 0 && waitpid(process_, &status_, WNOHANG) == process_) process_ = 0;
    return process_ <= 0;
  }
  Outcome wait() {
    if (process_ > 0) waitpid(process_, &status_, 0);
    process_ = 0;
    Outcome outcome;
    outcome.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 1000 + WTERMSIG(status_);
    outcome.out = longshot::read_file(folder_ / "out");
    outcome.err = longshot::read_file(folder_ / "err");
    return outcome;
  }

 private:
  Folder folder_;
  pid_t process_ = 0;
  int status_ = 0;
};

inline std::vector<std::string> longshot_words(std::vector<std::string> words) {
  words.insert(words.begin(), program_path());
  words.insert(words.end(), {"--threads", "1"});
  return words;
}

inline Outcome run_longshot(std::vector<std::string> words, const std::string& input = "") {
  return Running(longshot_words(std::move(words)), input).wait();
}

inline Outcome shell(const std::string& command) {
  return Running({"/bin/sh", "-c", command}).wait();
}

// Waits until `done()`; false when ten seconds were not enough or the program ended.
template <class Done>
bool wait_for(Running& running, Done done) {
  for (int i = 0; i < 5000; ++i) {
    if (done()) return true;
    if (running.ended()) return done();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

inline std::string tiny_config() {
  return R"(name = "tiny"
seed = 1
[task]
type = "reverse_string"
[model]
dim = 8
layers = 1
heads = 2
ffn = 16
[train]
steps = 6
batch = 4
lengths = { min = 1, max = 4 }
evaluate_every = 0
log_every = 2
[evaluate]
lengths = [3, 6]
samples = 8
in_range_samples = 8
)";
}

// The run folders below a study's folder, sorted.
inline std::vector<std::string> run_folders(const std::string& study) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(study))
    if (entry.is_directory()) folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace longshot_test
