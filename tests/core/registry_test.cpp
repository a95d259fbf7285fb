// Registry: things found by name, built from a table, with errors that help.
#include "core/registry.h"

#include <functional>
#include <string>

#include "core/config_toml.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

class Animal {
 public:
  using Arguments = std::tuple<int, const std::string&>;
  virtual ~Animal() = default;
  virtual std::string speak() const = 0;
};

struct DogOptions {
  int64_t volume = 2;
  void fields(FieldVisitor& visit) { visit.field("volume", volume, "how loud", at_least(1)); }
};
class Dog : public Animal {
 public:
  Dog(const DogOptions& options, int legs, const std::string& name)
      : text_(fmt::format("{} barks {} on {} legs", name, options.volume, legs)) {}
  std::string speak() const override { return text_; }

 private:
  std::string text_;
};

struct CatOptions {
  bool purrs = true;
  void fields(FieldVisitor& visit) { visit.field("purrs", purrs, "whether it purrs"); }
};
class Cat : public Animal {
 public:
  Cat(const CatOptions& options, int, const std::string& name)
      : text_(name + (options.purrs ? " purrs" : " sits")) {}
  std::string speak() const override { return text_; }

 private:
  std::string text_;
};

const RegisterType<Animal, Dog, DogOptions> kRegisterDog{"dog", "barks"};
const RegisterType<Animal, Cat, CatOptions> kRegisterCat{"cat", "purrs or sits"};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("registered types are listed by name and built with their options and arguments") {
  const Registry<Animal>& registry = Registry<Animal>::instance();
  CHECK(registry.names() == std::vector<std::string>{"cat", "dog"});
  CHECK(registry.find("dog")->summary == "barks");
  CHECK(registry.find("dgo") == nullptr);

  const auto& entry = registry.get("dog", "animal", {"a.toml", 3, 1});
  const ConfigTable table = parse_toml("type = 'dog'\nvolume = 5\n", "a.toml");
  const std::unique_ptr<Animal> dog = entry.create(table, {"animal", {}, {"type"}}, 4, "Rex");
  CHECK(dog->speak() == "Rex barks 5 on 4 legs");
  CHECK(entry.describe().at(0).key == "volume");
}

TEST_CASE("resolving writes all options, defaults included, and checks them") {
  const auto& entry = *Registry<Animal>::instance().find("cat");
  const ReadContext context{"animal", {}, {"type"}};
  CHECK(entry.resolve(parse_toml("type = 'cat'", "a.toml"), context).to_toml() == "purrs = true\n");
  CHECK(entry.resolve(parse_toml("purrs = false", "a.toml"), context).to_toml() ==
        "purrs = false\n");
  CHECK_THAT(message_of([&] { entry.resolve(parse_toml("purrs = 1", "a.toml"), context); }),
             ContainsSubstring("a.toml:1:1: animal.purrs must be true or false"));
}

TEST_CASE("an option of another type is named as such") {
  const Registry<Animal>& registry = Registry<Animal>::instance();
  const ReadContext context{"animal", registry.foreign_keys("cat", "animal"), {"type"}};
  const std::string message = message_of(
      [&] { registry.find("cat")->resolve(parse_toml("\nvolume = 1", "a.toml"), context); });
  CHECK(message ==
        "a.toml:2:1: unknown key \"volume\" in [animal]; \"volume\" is an option of animal dog; "
        "known "
        "keys: purrs, type");
}

TEST_CASE("an unknown name says where, what is near and what there is") {
  CHECK(message_of([] {
          Registry<Animal>::instance().get("dgo", "animal", {"a.toml", 3, 1});
        }) == "a.toml:3:1: unknown animal \"dgo\"; did you mean \"dog\"?; known: cat, dog");
  CHECK(message_of([] {
          Registry<Animal>::instance().get("elephant", "animal", {"command line", 0, 0});
        }) == "command line: unknown animal \"elephant\"; known: cat, dog");
}

TEST_CASE("a name cannot be taken twice") {
  const std::string message =
      message_of([] { RegisterType<Animal, Dog, DogOptions>("dog", "again"); });
  CHECK(message == "registry: the name dog is taken twice");
}
