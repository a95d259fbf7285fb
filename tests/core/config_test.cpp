// Config values, TOML reading and writing, field lists. Each mistake a person can make must name
// the place, the key and what would be right.
#include "core/config.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "core/config_toml.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

struct Inner {
  int64_t min = 1;
  int64_t max = 40;
  void fields(FieldVisitor& visit) {
    visit.field("min", min, "shortest", at_least(1));
    visit.field("max", max, "longest", at_least(1));
  }
};

struct Sample {
  bool flag = false;
  int64_t count = 3;
  double rate = 0.5;
  double base = 10000;
  std::string pairing = "interleaved";
  std::string text;
  std::string file;
  std::vector<int64_t> sizes = {1, 2};
  std::vector<double> weights;
  ConfigValue shape = ConfigValue::array({});
  Inner lengths;

  void fields(FieldVisitor& visit) {
    visit.field("flag", flag, "a flag");
    visit.field("count", count, "a count", between(1, 10));
    visit.field("rate", rate, "a rate", from_to_below(0, 1));
    visit.field("base", base, "a base", above(0));
    visit.field("pairing", pairing, "which lanes", one_of({"interleaved", "half"}));
    visit.field("text", text, "anything");
    visit.field("file", file, "a file", file_path());
    visit.field("sizes", sizes, "sizes", at_least(1));
    visit.field("weights", weights, "weights");
    visit.field("shape", shape, "free form", "list or table");
    visit.table("lengths", lengths, "lengths");
  }
};

Sample read(const std::string& toml, const ReadContext& context = {"sample", {}, {}}) {
  Sample sample;
  read_options(parse_toml(toml, "a.toml"), context, sample);
  return sample;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string read_error(const std::string& toml, const ReadContext& context = {"sample", {}, {}}) {
  return message_of([&] { read(toml, context); });
}

}  // namespace

TEST_CASE("options are read with their types, absent ones keep their defaults") {
  const Sample sample = read(
      "flag = true\ncount = 7\nrate = 0\nbase = 500\npairing = 'half'\ntext = \"a\\tb\"\n"
      "sizes = [4, 5, 6]\nweights = [1, 2.5]\nshape = { a = [1] }\nlengths = { max = 20 }\n");
  CHECK(sample.flag);
  CHECK(sample.count == 7);
  CHECK(sample.rate == 0.0);
  CHECK(sample.base == 500.0);  // a whole number is fine where a number is expected
  CHECK(sample.pairing == "half");
  CHECK(sample.text == "a\tb");
  CHECK(sample.sizes == std::vector<int64_t>{4, 5, 6});
  CHECK(sample.weights == std::vector<double>{1.0, 2.5});
  CHECK(sample.shape.to_toml() == "{ a = [1] }");
  CHECK(sample.lengths.min == 1);
  CHECK(sample.lengths.max == 20);

  const Sample defaults = read("");
  CHECK(defaults.count == 3);
  CHECK(defaults.base == 10000.0);
  CHECK(defaults.sizes == std::vector<int64_t>{1, 2});
}

TEST_CASE("wrong types name the place, the key and the type") {
  CHECK(read_error("flag = 1") ==
        "a.toml:1:1: sample.flag must be true or false, got a whole number: 1");
  CHECK(read_error("\n  count = 1.5") ==
        "a.toml:2:3: sample.count must be a whole number, got a number: 1.5");
  CHECK(read_error("count = '7'") ==
        "a.toml:1:1: sample.count must be a whole number, got a string: \"7\"");
  CHECK(read_error("rate = '1e-4x'") ==
        "a.toml:1:1: sample.rate must be a number, got a string: \"1e-4x\"");
  CHECK(read_error("rate = true") ==
        "a.toml:1:1: sample.rate must be a number, got true or false: true");
  CHECK(read_error("text = 5") ==
        "a.toml:1:1: sample.text must be a string, got a whole number: 5");
  CHECK(
      read_error("pairing = 5") ==
      "a.toml:1:1: sample.pairing must be one of \"interleaved\", \"half\", got a whole number: 5");
  CHECK(read_error("sizes = 5") ==
        "a.toml:1:1: sample.sizes must be a list of whole numbers, got a whole number: 5");
  CHECK(read_error("sizes = [1,\n  2.5]") ==
        "a.toml:2:3: sample.sizes must be a whole number, got a number: 2.5");
  CHECK(read_error("lengths = 5") ==
        "a.toml:1:1: sample.lengths must be a table, got a whole number: 5");
  CHECK(read_error("lengths = { min = 'a' }") ==
        "a.toml:1:13: sample.lengths.min must be a whole number, got a string: \"a\"");
}

TEST_CASE("limits say what is allowed") {
  CHECK(read_error("count = 0") == "a.toml:1:1: sample.count must be from 1 to 10, got 0");
  CHECK(read_error("count = 11") == "a.toml:1:1: sample.count must be from 1 to 10, got 11");
  CHECK(read("count = 10").count == 10);
  CHECK(read("count = 1e1").count == 10);
  CHECK(read_error("rate = 1.0") ==
        "a.toml:1:1: sample.rate must be at least 0 and below 1, got 1.0");
  CHECK(read_error("rate = -1e-3") ==
        "a.toml:1:1: sample.rate must be at least 0 and below 1, got -0.001");
  CHECK(read_error("base = 0") == "a.toml:1:1: sample.base must be above 0, got 0");
  CHECK(read_error("sizes = [3, 0]") == "a.toml:1:13: sample.sizes must be at least 1, got 0");
  CHECK(read_error("lengths.min = 0") ==
        "a.toml:1:9: sample.lengths.min must be at least 1, got 0");
  CHECK(
      read_error("pairing = 'halve'") ==
      "a.toml:1:1: sample.pairing must be one of \"interleaved\", \"half\", got \"halve\"; did you "
      "mean \"half\"?");
}

TEST_CASE("unknown keys name section, key, nearest key and where the key belongs (B34)") {
  CHECK(read_error("count = 1\nrat = 0.1") ==
        "a.toml:2:1: unknown key \"rat\" in [sample]; did you mean \"rate\"?");
  CHECK(read_error("fction = 1", {"sample", {{"fction", "is an option of encoding rope"}}, {}}) ==
        "a.toml:1:1: unknown key \"fction\" in [sample]; \"fction\" is an option of encoding rope; "
        "known keys: flag, count, rate, base, pairing, text, file, sizes, weights, shape, lengths");
  CHECK(read_error("lengths = { mix = 1 }") ==
        "a.toml:1:13: unknown key \"mix\" in [sample.lengths]; did you mean \"min\"?");
  CHECK(read_error("cuont = 1", {"", {}, {}}) ==
        "a.toml:1:1: unknown key \"cuont\" at the top level; did you mean \"count\"?");
  CHECK(read("type = 5\ncount = 2", {"sample", {}, {"type"}}).count == 2);
}

TEST_CASE("one number, five spellings; what is no number is an error with its line (B33)") {
  for (const char* text : {"1e-4", "1E-4", "1.0e-4", "0.0001", "1e-04"}) {
    INFO(text);
    CHECK(read(std::string("rate = ") + text).rate == 0.0001);
    Sample sample;
    ConfigTable table;
    table.set("rate", parse_toml_value(text, {"command line", 0, 0}));
    read_options(table, {"sample", {}, {}}, sample);
    CHECK(sample.rate == 0.0001);
  }
  for (const char* text : {"1e-4x", "0,1", "nan", "inf", "-inf", "", "1e", ".5", "1e999"}) {
    INFO(text);
    const std::string message = read_error(std::string("count = 1\nrate = ") + text + "\n");
    CHECK_THAT(message, ContainsSubstring("a.toml:2:") || ContainsSubstring("a.toml:3:"));
  }
  CHECK(read_error("\nrate = nan") == "a.toml:2:1: sample.rate must be a finite number, got nan");
}

TEST_CASE("duplicate keys and broken syntax carry file, line and column (B34)") {
  CHECK_THAT(message_of([] { parse_toml("a = 1\nb = 2\na = 3\n", "dup.toml"); }),
             ContainsSubstring("dup.toml:3:"));
  CHECK_THAT(message_of([] { parse_toml("[x]\na = 1\n[x]\nb = 1\n", "dup.toml"); }),
             ContainsSubstring("dup.toml:3:"));
  CHECK_THAT(message_of([] { parse_toml("a = [1, 2\n", "bad.toml"); }),
             ContainsSubstring("bad.toml:"));
  CHECK_THAT(message_of([] { parse_toml("x = 1\ny = 2024-01-01\n", "date.toml"); }),
             ContainsSubstring("date.toml:2:1: dates"));
  CHECK_THAT(message_of([] { parse_toml("a = \"\xff\xfe\"\n", "bytes.toml"); }),
             ContainsSubstring("bytes.toml:1:"));
  CHECK_THAT(message_of([] { parse_toml_file("/nonexistent/a.toml"); }),
             ContainsSubstring("/nonexistent/a.toml: cannot read: No such file"));
  CHECK_THAT(message_of([] { parse_toml_file("/tmp"); }), ContainsSubstring("is a folder"));
}

TEST_CASE("a table keeps the order of the file and the place of each key") {
  const ConfigTable table =
      parse_toml("zeta = 1\nalpha = [1,\n  2]\n[second]\nx = 1\n[first]\ny.z = 2\n", "o.toml");
  std::vector<std::string> keys;
  for (const auto& [key, value] : table.entries()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"zeta", "alpha", "second", "first"});
  CHECK(table.find("zeta")->where().to_string() == "o.toml:1:1");
  CHECK(table.find("alpha")->as_array()[1].where().to_string() == "o.toml:3:3");
  CHECK(table.find("second")->as_table().find("x")->where().to_string() == "o.toml:5:1");
  CHECK(table.find("first")->as_table().find("y")->as_table().find("z")->where().to_string() ==
        "o.toml:7:3");
}

TEST_CASE("command line values are TOML where they parse, otherwise a word") {
  const auto value = [](const char* text) {
    return parse_toml_value(text, {"command line", 0, 0});
  };
  CHECK(value("rope").as_string() == "rope");
  CHECK(value("runs/a b/c").as_string() == "runs/a b/c");
  CHECK(value("\"true\"").as_string() == "true");
  CHECK(value("").as_string().empty());
  CHECK(value("1\nb = 2").as_string() == "1\nb = 2");
  CHECK(value("2024-01-01").as_string() == "2024-01-01");
  CHECK(std::get<bool>(value("true").variant()));
  CHECK(std::get<int64_t>(value("12").variant()) == 12);
  CHECK(std::get<double>(value("1e-3").variant()) == 0.001);
  CHECK(value("[1, 2, {from = 3}]").to_toml() == "[1, 2, { from = 3 }]");
  CHECK(value("{type = \"rope\", base = 500}").to_toml() == "{ type = \"rope\", base = 500 }");
  CHECK(value("{a = 1}").as_table().find("a")->where().to_string() == "command line");
  CHECK_THAT(message_of([&] { value("[1, 2"); }),
             ContainsSubstring("command line: [1, 2 is not a valid value"));
}

TEST_CASE("numbers are written in the shortest form that reads back equal") {
  CHECK(to_shortest(0.0003) == "0.0003");
  CHECK(to_shortest(1e-5) == "1e-05");
  CHECK(to_shortest(1) == "1.0");
  CHECK(to_shortest(-2) == "-2.0");
  CHECK(to_shortest(0.1) == "0.1");
  CHECK(to_shortest(10000) == "10000.0");
  CHECK(to_shortest(0.1 + 0.2) == "0.30000000000000004");
  for (const double value : {0.1f + 0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, 1e21, -0.0}) {
    const ConfigTable table = parse_toml("x = " + to_shortest(value), "x");
    const double back = std::get<double>(table.find("x")->variant());
    CHECK(back == value);
    CHECK(std::signbit(back) == std::signbit(value));
  }
}

TEST_CASE("what is written loads back equal") {
  Sample sample;
  sample.rate = 0.1;
  sample.text = "quote \" slash \\ tab \t line \n bell \a delete \x7f caf\xc3\xa9";
  sample.file = "/data/corpus.txt";
  sample.weights = {0.1, 3, 1e-30};
  sample.shape = parse_toml_value("[50, { from = 1, 'odd key' = 2 }]", {});
  ConfigTable written;
  write_options(written, sample);
  const ConfigTable back = parse_toml(written.to_toml(), "back.toml");
  CHECK(back == written);
  Sample again;
  read_options(back, {"sample", {}, {}}, again);
  CHECK(again.text == sample.text);
  CHECK(again.weights == sample.weights);
  CHECK(again.shape == sample.shape);
  ConfigTable rewritten;
  write_options(rewritten, again);
  CHECK(rewritten == written);
  CHECK(rewritten.to_toml() == written.to_toml());

  // A document puts plain keys before sections and keeps empty tables.
  const ConfigTable document = parse_toml("[b]\nx = 1\ninner = {}\n[c]\n", "d.toml");
  ConfigTable with_plain = document;
  with_plain.set("a key", ConfigValue(int64_t(1), {}));
  CHECK(with_plain.to_toml() == "\"a key\" = 1\n\n[b]\nx = 1\ninner = {}\n\n[c]\n");
  CHECK(parse_toml(with_plain.to_toml(), "e") == with_plain);
}

TEST_CASE("equality looks at values, not at order, place or a shared pointer") {
  CHECK(parse_toml("a = 1\nb = [1, 2]", "x") == parse_toml("b = [1, 2]\na = 1", "y"));
  CHECK_FALSE(parse_toml("a = 1", "x") == parse_toml("a = 1.0", "x"));
  CHECK_FALSE(parse_toml("a = 1", "x") == parse_toml("a = 1\nb = 1", "x"));
  CHECK_FALSE(parse_toml("a = [1, 2]", "x") == parse_toml("a = [2, 1]", "x"));
  ConfigValue original = parse_toml_value("{ a = { b = 1 } }", {});
  ConfigValue copy = original;
  copy.as_table().find("a")->as_table().set("b", ConfigValue(int64_t(2), {}));
  CHECK(original.to_toml() == "{ a = { b = 1 } }");
  CHECK(copy.to_toml() == "{ a = { b = 2 } }");
  original.as_table().erase("a");
  CHECK(original.as_table().empty());
  CHECK_THROWS_AS(copy.as_array(), UsageError);
}

TEST_CASE("a copied table is a value of its own, whatever is nested in it") {
  const ConfigTable original = parse_toml("a = { b = { c = 1 } }\nlist = [{ x = 1 }]", "f");
  ConfigTable copy = original, assigned;
  assigned = original;
  for (ConfigTable* each : {&copy, &assigned}) {
    each->find("a")->as_table().find("b")->as_table().set("c", ConfigValue(int64_t(2), {}));
    ConfigArray items = each->find("list")->as_array();
    items[0].as_table().set("x", ConfigValue(int64_t(3), {}));
    CHECK(each->find("list")->to_toml() == "[{ x = 1 }]");
    CHECK(each->find("a")->to_toml() == "{ b = { c = 2 } }");
  }
  CHECK(original.find("a")->to_toml() == "{ b = { c = 1 } }");
}

TEST_CASE("a file field counts from the folder of the config that holds it") {
  ConfigTable in_file = parse_toml("file = \"../data/x.txt\"", "/studies/one/a.toml");
  Sample sample;
  read_options(in_file, {"sample", {}, {}}, sample);
  CHECK(sample.file == "/studies/data/x.txt");

  ConfigTable on_command_line;
  on_command_line.set("file", parse_toml_value("data/x.txt", {"command line", 0, 0}));
  read_options(on_command_line, {"sample", {}, {}}, sample);
  CHECK(sample.file == (std::filesystem::current_path() / "data/x.txt").string());

  CHECK(read("file = '/abs/x'").file == "/abs/x");
  CHECK(read("file = ''").file.empty());
}

TEST_CASE("a field list describes itself") {
  const std::vector<FieldInfo> rows = describe_options<Sample>();
  const auto row = [&](const std::string& key) -> const FieldInfo& {
    for (const FieldInfo& each : rows)
      if (each.key == key) return each;
    FAIL("no row " << key);
    return rows.front();
  };
  CHECK(rows.size() == 12);
  CHECK(row("flag").type == "true or false");
  CHECK(row("flag").default_value == "false");
  CHECK(row("count").limits == "from 1 to 10");
  CHECK(row("rate").limits == "at least 0 and below 1");
  CHECK(row("base").default_value == "10000.0");
  CHECK(row("pairing").limits == "one of \"interleaved\", \"half\"");
  CHECK(row("file").type == "file");
  CHECK(row("sizes").default_value == "[1, 2]");
  CHECK(row("sizes").limits == "each at least 1");
  CHECK(row("shape").type == "list or table");
  CHECK(row("lengths.max").default_value == "40");
  CHECK(row("lengths.max").help == "longest");
}

TEST_CASE("nearest_name") {
  const std::vector<std::string> names = {"dropout", "dim", "heads", "layers"};
  CHECK(nearest_name("drpout", names) == "dropout");
  CHECK(nearest_name("dropuot", names) == "dropout");  // two letters swapped: distance 1
  CHECK(nearest_name("head", names) == "heads");
  CHECK(nearest_name("layer_count", names).empty());
  CHECK(nearest_name("x", names).empty());
  CHECK(nearest_name("dmi", names) == "dim");
  CHECK(nearest_name("", names).empty());
  CHECK(nearest_name("dim", {}).empty());
  // Half of a word's letters make it another word.
  CHECK(nearest_name("nope", {"copy"}).empty());       // 2 of 4
  CHECK(nearest_name("copi", {"copy"}) == "copy");     // 1 of 4
  CHECK(nearest_name("bathc", {"batch"}) == "batch");  // a swap
  CHECK(nearest_name("sinusodial", {"sinusoidal"}) == "sinusoidal");
  CHECK(nearest_name("lr", {"ln"}).empty());              // 1 of 2
  CHECK(nearest_name("abcdef", {"abxyef"}) == "abxyef");  // 2 of 6
  CHECK(nearest_name("abcdef", {"axyzef"}).empty());      // 3 of 6
}
