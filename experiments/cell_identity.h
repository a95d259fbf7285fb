// Folder names for the cells of a sweep, from what differs between them.
#pragma once

#include <string>
#include <vector>

#include "experiments/sweep.h"

namespace longshot {

// Sets each cell's `folder`.
void name_folders(std::vector<Cell>& cells, const std::string& auto_device, const Schema& schema);

// Files that the config names and that are not there: their content is missing from the identity.
std::vector<std::string> missing_files(const RunConfig& config,
                                       const Schema& schema = Schema::installed());

}  // namespace longshot
