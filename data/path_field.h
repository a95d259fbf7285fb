// A field of an options struct that holds a file's path.
//
// A path written in a config file is relative to that file, one on the command line to the working
// directory. Reading makes it absolute, so that the saved config loads back from anywhere.
#pragma once

#include <string>

#include "core/config.h"

namespace longshot {

void path_field(FieldVisitor& visit, const char* key, std::string& path, const char* help);

}  // namespace longshot
