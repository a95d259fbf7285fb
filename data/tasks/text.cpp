// text: language modelling on the bytes of any file, UTF-8 or binary, memory-mapped.
// Segments, windows and scores: data/byte_segments.h.
//
//   corpus                 one file, cut by position: train, valid_fraction, test_fraction
//   train_file, test_file  or separate files; without a valid_file the end of train_file,
//                          valid_fraction of it, is the validation part
//
// For evaluation alone (data/task_record.h) only test_file is opened, or else corpus.
#include <memory>

#include "core/error.h"
#include "data/byte_segments.h"
#include "data/mapped_file.h"

namespace longshot {
namespace {

struct TextOptions : SegmentOptions {
  std::string corpus, train_file, valid_file, test_file;
  double valid_fraction = 0.05;
  double test_fraction = 0.05;
  void fields(FieldVisitor& visit) {
    visit.field("corpus", corpus, "file that is cut into train, validation and test", file_path());
    visit.field("train_file", train_file, "file to train on, instead of corpus", file_path());
    visit.field("valid_file", valid_file, "file to validate on", file_path());
    visit.field("test_file", test_file, "file to test on, with train_file", file_path());
    visit.field("valid_fraction", valid_fraction, "share of the file for validation",
                from_to_below(0, 1));
    visit.field("test_fraction", test_fraction, "share of the corpus for test",
                from_to_below(0, 1));
    SegmentOptions::fields(visit);
  }
};

class Text : public ByteSegments {
 public:
  Text(const TextOptions& options, const TaskRecord* record) : ByteSegments(options) {
    if (record != nullptr && !options.test_file.empty()) {
      test_ = MappedFile(options.test_file);
      set_bytes({{}, {}, test_.bytes()}, options.test_file, record);
      return;
    }
    const bool separate =
        !options.train_file.empty() || !options.test_file.empty() || !options.valid_file.empty();
    if (options.corpus.empty() == !separate)
      throw UsageError("task text: give either corpus, or train_file and test_file");
    if (!separate) {
      train_ = MappedFile(options.corpus);
      set_bytes(split_by_position(train_.bytes(), options.valid_fraction, options.test_fraction),
                options.corpus, record);
      return;
    }
    if (options.train_file.empty() || options.test_file.empty())
      throw UsageError(
          fmt::format("task text: {} is missing; separate files need both train_file "
                      "and test_file",
                      options.train_file.empty() ? "train_file" : "test_file"));
    train_ = MappedFile(options.train_file);
    test_ = MappedFile(options.test_file);
    SplitBytes bytes;
    if (options.valid_file.empty()) {
      bytes = split_by_position(train_.bytes(), options.valid_fraction, 0.0);
    } else {
      valid_ = MappedFile(options.valid_file);
      bytes.train = train_.bytes();
      bytes.validation = valid_.bytes();
    }
    bytes.test = test_.bytes();
    set_bytes(bytes, options.train_file);
  }

 private:
  MappedFile train_, valid_, test_;
};

const RegisterType<Task, Text, TextOptions> kRegister{
    "text", "language modelling on the bytes of a file, causal or masked"};

}  // namespace
}  // namespace longshot
