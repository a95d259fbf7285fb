// From files and a command line to one table of what was written. Later beats earlier:
//
//   extends (left to right, each with its own extends) < the file < the next file < key=value
//
// Tables merge key by key, lists are replaced whole. A [task], [encoding] or [positions] with
// another `type` than before starts from nothing: the earlier type's options do not survive. A
// string in place of such a section is its type: `encoding = "rope"`. A later [sweep] replaces an
// earlier one.
#pragma once

#include <string>
#include <vector>

#include "experiments/schema.h"

namespace longshot {

struct LoadedConfig {
  ConfigTable table;               // files, then command line; "sweep" included, "extends" gone
  ConfigTable command_line;        // the key=value part alone: it beats the cells of a sweep, too
  std::vector<std::string> notes;  // what a reader of the files may not expect
};

// `overrides` are "a.b=value" with value as TOML or a bare word. Without `name` the study is called
// like the last file. Mistakes throw UsageError with their place.
LoadedConfig load_config(const std::vector<std::string>& files,
                         const std::vector<std::string>& overrides = {},
                         const Schema& schema = Schema::installed());

// load_config and resolve, for a config without a sweep (a run folder's config.toml).
RunConfig load_run(const std::string& file, const std::vector<std::string>& overrides = {},
                   const Schema& schema = Schema::installed());

// "a.b=value" as a table { a = { b = value } }.
ConfigTable parse_override(const std::string& text);

// Sets a dotted key, making tables on the way; what is there is merged with, not replaced.
ConfigTable table_of(std::string_view dotted_key, ConfigValue value);
void merge_config(ConfigTable& base, const ConfigTable& later, const Schema& schema);

}  // namespace longshot
