// A configuration file of another program as a flat list of keys: "parallelism.tensor_parallel_degree" with its value
// and line.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model::configurations {

struct Entry {
  std::string key;                 // as the tables of keys name it: after the renames of the format
  std::string written;             // as it stands in the file, dotted
  std::string value;               // without quotes; empty for null and for lists
  std::vector<std::string> items;  // of a list of scalars
  int line = 0;
  bool is_list = false;
  bool unread = false;  // an expression of Python, which is not run

  bool is_null() const { return value.empty() && !is_list && !unread; }
};

// A key, or a beginning of keys that ends in . or _, and what the tables of keys have in its place.
using Rename = std::pair<std::string_view, std::string_view>;

struct Configuration {
  std::string file;
  std::vector<Entry> entries;  // in the order of the file

  // Returns the last entry of a key that is not null, else the first; nullptr when the file has none.
  const Entry* find(std::string_view key) const;
};

// A file of Python whose text is a part of a source's, behind those of the files that it imports.
struct PythonModule {
  std::size_t begin = 0;
  std::string package;                                        // the name of the folder that it lies in
  std::map<std::string, std::size_t, std::less<>> imports{};  // modules by their name in "from NAME import"
};

struct Source {
  std::string_view text;
  const std::string& path;
  const std::vector<Rename>& renames;
  std::string function;                      // of Python, whose configuration is read; empty: the only one
  std::vector<PythonModule> modules = {{}};  // the last one is the file itself
  std::map<std::string, std::string, std::less<>> definitions = {};  // variables of a script that come from outside
};

// Read a file's text; errors name the path and the line. Keys in a list of tables are "callbacks[].name", and are
// written "callbacks[0].name". Keys that are given twice are an error. Of YAML, aliases and merge keys are expanded,
// within limits on depth and number of values; JSON is read as YAML, which contains it.
Result<Configuration> read_toml(const Source& source);
Result<Configuration> read_yaml(const Source& source);

// Returns what a function of a Python file returns, without running it: literals, sums and products of whole numbers
// and of lists, dictionaries and what is looked up in them, conditions that are decided, keywords of calls, and what
// was assigned before, by functions of the file and of those that it imports too.
// A call that is no section's own class (TrainingConfig) is a value with its positional arguments as items. "def" is
// the function's name. Every other statement is an entry in quotes.
Result<Configuration> read_python(const Source& source);
bool is_python(std::string_view text);
// torchtitan's functions that name a model by its flavor, and the one that returns its first argument changed by its
// second, here the field "transforms". None is read itself.
inline constexpr std::string_view kModelRegistry = "model_registry", kModelBuilder = "build_model_config",
                                  kTransforms = "apply_transforms";

}  // namespace plumbline::model::configurations
