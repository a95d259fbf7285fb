#include "data/path_field.h"

#include <filesystem>

#include "core/error.h"

namespace longshot {

void path_field(FieldVisitor& visit, const char* key, std::string& path, const char* help) {
  ConfigValue value(path, SourceLocation{});
  visit.field(key, value, help, "a path");
  if (!value.is_string())
    throw UsageError(fmt::format("{}: {} must be a path, got {}", value.where().to_string(), key,
                                 value.type_name()));
  path = value.as_string();
  if (path.empty()) return;
  namespace fs = std::filesystem;
  // Line 0 means that the value was not written in a file.
  const fs::path base =
      value.where().line > 0 ? fs::path(value.where().file).parent_path() : fs::path();
  path = fs::absolute(base / path).lexically_normal().string();
}

}  // namespace longshot
