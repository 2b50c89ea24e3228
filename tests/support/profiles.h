// The profiles and stacks that tests load. A test that needs a profile takes the copy in tests/data/frozen, so that a
// better constant of a shipped one changes nothing that it expects. A test about the shipped one names its file.
#pragma once

#include <string>

#include "tests/support/inputs.h"

namespace plumbline::tests {

// Returns the path of a file or folder of the copies, e.g. frozen("stacks").
inline std::string frozen(const std::string& path) { return shipped("tests/data/frozen/" + path); }

inline std::string shipped_profile(const std::string& name) { return shipped("calibrate/profiles/" + name + ".toml"); }

// Returns the file of a profile that a test names: the copy of that name, or the file itself, which ends in .toml.
inline std::string profile_file(const std::string& name_or_file) {
  return name_or_file.ends_with(".toml") ? name_or_file : frozen("profiles/" + name_or_file + ".toml");
}

}  // namespace plumbline::tests
