// Files of constants that extend one another, as those of profiles and of stacks do.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/parameter_file.h"

namespace plumbline::model {

struct ChainKind {
  std::string what;  // "profile", for messages
  std::vector<std::string> text_keys = {"name", "description", "extends"};
  std::vector<std::string> list_keys = {};
  ParameterForm form = ParameterForm::constants;
};

// Reads the files from the named one to the last that it extends. With `extends = "other"` the file continues with
// other.toml in its folder, else in `shipped` where that is given. An entry of any of the files that check_constant()
// refuses is an input error with file, line and key.
Result<std::vector<ParameterFile>> read_chain(const std::string& path, const std::string& shipped,
                                              const ChainKind& kind);

// Takes the constants of all files, sorted by name; of entries of one name that of the first file stays.
std::vector<Parameter> take_constants(std::vector<ParameterFile>& chain);

// Returns what the first file states as its name, else the name of that file.
std::string stated_name(const std::vector<ParameterFile>& chain);

}  // namespace plumbline::model
