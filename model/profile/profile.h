// A cost profile: the constants of hardware and its kernels, each with unit, kind and source, and the software stack
// (model/profile/stack.h) that plans run on it with unless they name another.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {

class Profile {
 public:
  Profile() = default;
  Profile(std::string name, std::string description, std::vector<Parameter> parameters,
          std::vector<std::string> devices = {}, std::string stack = "", std::vector<ConstantFit> fits = {});

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }  // sorted by name
  // Names of the devices for which the constants hold; none where the profile names none.
  const std::vector<std::string>& devices() const { return devices_; }
  // Name or file of a stack, "none", or empty: that whose constants the profile contains, in a profile as it is read
  // that of plans which name none.
  const std::string& stack() const { return stack_; }

  // Constants whose uncertainties are not independent; no constant is in two.
  const std::vector<ConstantFit>& fits() const { return fits_; }

  // Returns the index into parameters(), or nullopt. Cost functions look their names up once, at construction.
  std::optional<std::size_t> find(std::string_view name) const;

  // Returns this profile after applying the changes in order; its name is marked: "h800 (changed)". Returns the errors
  // of apply_change() and those of check_constant() about the constants that changed.
  Result<Profile> with_changes(const std::vector<ConstantChange>& changes) const;

  bool operator==(const Profile&) const = default;

 private:
  std::string name_;
  std::string description_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> devices_;
  std::string stack_;
  std::vector<ConstantFit> fits_;
};

// Reads calibrate/profiles/<name>.toml. With `extends = "other"` a file's entries are added to those of the other
// profile and replace entries of the same name. The other one is searched in the same folder, then in `shipped` where
// that is given. Every entry must have value, unit, kind and source: `k_time = { value = 3.3, unit = "ns", ... }`
// inside nested tables, which give the dotted name. `devices = ["h800-sxm"]` replaces the list of the other profile,
// `stack = "megatron-core-2025"` its stack: a name, "none", or a file in the folder of the profile. Tables [[fit]] have
// `constants` and `correlation`; one that names constants which another file replaces loses those. An entry of any of
// the files that check_constant() refuses is an input error with file, line and key, and so is a fit of constants that
// no file has.
Result<Profile> load_profile(const std::string& path, const std::string& shipped = "");

}  // namespace plumbline::model
