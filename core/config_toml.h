// TOML text to a ConfigTable, through toml++. Syntax errors and duplicate keys throw UsageError
// with file:line:column.
#pragma once

#include <string>
#include <string_view>

#include "core/config.h"

namespace longshot {

ConfigTable parse_toml(std::string_view text, const std::string& file_name);
ConfigTable parse_toml_file(const std::string& path);
// One value as written after `key=` on a command line: TOML where it parses as TOML, otherwise a
// bare string ("rope", "runs/a/b").
ConfigValue parse_toml_value(std::string_view text, const SourceLocation& where);

}  // namespace longshot
