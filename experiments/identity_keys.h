// Which keys of a config stand in a cell's identity.
//
// An identity must outlive the program's next versions: a key that did not exist when a cell was
// trained must not make it another cell. So there is a list of the keys that every identity holds,
// in a fixed order: those the program had when this promise was made. A key that is not on the list
// stands in an identity only where it is not at its default.
//
// The list is closed: new keys are not added to it, and none is taken from it. The default of a
// later key is fixed for ever (another default is a new key, or a raised bits version).
#pragma once

#include "experiments/schema.h"

namespace longshot {

// `trained` (from trained_part) without the later keys that are at their defaults, in the order of
// the list; later keys follow, by name.
ConfigTable lasting_part(const ConfigTable& trained, const Schema& schema);

}  // namespace longshot
