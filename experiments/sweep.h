// [sweep]: one config, many runs.
//
//   grid  = { encoding = ["none", { type = "learned", capacity = 512 }], seed = [1, 2, 3] }
//   zip   = { train.lr = [1e-3, 3e-4], train.warmup = [0, 1000] }   # in step, equally long
//   cells = [{ model.dim = 64 }, { model.dim = 128, model.heads = 16 }]
//
// The sweep is the product of every grid axis, the zip and the cells, the first varying slowest. A
// value is laid over the config like a later file. A key given on the command line is no axis any
// more. Without [sweep] there is one cell.
//
// A cell is identified by what changes its trained bits: seed, device type, TF32, task, model,
// encoding, positions, training. Not by evaluation, output places, names, or how often it saves or
// reports. Files count by their content, not their path.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/load.h"

namespace longshot {

struct Cell {
  std::vector<std::pair<std::string, ConfigValue>> overrides;  // the axes' values, by dotted key
  RunConfig config;
  std::string identity;  // 16 hexadecimal digits
  std::string folder;    // "<what differs>-<first 8 digits of the identity>", safe as a folder name
};

// `auto_device` is what device.type = "auto" means here: "cpu" or "cuda". Mistakes, an empty axis
// and two cells that train the same model throw UsageError with their place.
std::vector<Cell> expand_sweep(const LoadedConfig& loaded, const std::string& auto_device,
                               const Schema& schema = Schema::installed());

// The bits version of a config: raised when a build trains other bits than the build before it from
// this config on the same device (another order of sums, other draws, a corrected task), and never
// otherwise. Cells trained under another version are other cells then: their folders stay and
// reports read them, but a sweep trains its cells anew, and an interrupted run does not go on with
// half its steps computed otherwise. Version 1 adds nothing to an identity.
//   2  what keep = "best" keeps with min_delta above 0, and on which validation samples of jsonl
//   and
//      text keep = "best" and patience decide
int64_t bits_version_of(const RunConfig& config);

// The keys and values that decide the trained bits, and the identity: a hash of them, of the bits
// version, and of the contents of the files they name. experiments/identity_keys.h says what keys
// that come later do to identities.
ConfigTable trained_part(const RunConfig& config, const std::string& auto_device);
std::string identity_of(const RunConfig& config, const std::string& auto_device,
                        const Schema& schema = Schema::installed(),
                        std::optional<int64_t> bits_version = std::nullopt);

// An existing folder of this cell below the study's folder, whatever the readable part of its name:
// a study that grew an axis still finds its finished cells.
std::optional<std::filesystem::path> find_cell_folder(const std::filesystem::path& study_folder,
                                                      const Cell& cell);

}  // namespace longshot
