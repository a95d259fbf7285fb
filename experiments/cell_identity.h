// Folder names for the cells of a sweep, from what differs between them.
#pragma once

#include <string>
#include <vector>

#include "experiments/sweep.h"

namespace longshot {

// Sets each cell's `folder`.
void name_folders(std::vector<Cell>& cells, const std::string& auto_device, const Schema& schema);

}  // namespace longshot
