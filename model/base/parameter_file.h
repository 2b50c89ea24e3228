// A TOML file of constants, such as a profile, topology or device. Every number is a table
// { value, unit, kind, source [, uncertainty] [, low] [, high] }, named by its dotted path in the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"

namespace plumbline::model {

struct ParameterFile {
  struct Number {
    Parameter parameter;
    int line = 0;
    std::string path;
  };
  struct Text {  // a key with a string, or one of its strings
    std::string key;
    std::string value;
    int line = 0;
    std::string path;
  };

  struct Setting {  // a table of [[setting]] or [[has]]
    std::string key;
    std::string value;  // as TOML; of [[has]] the list `values`
    Evidence kind = Evidence::assumed;
    std::string source;
    int line = 0;
    std::string needs;       // of [[setting]]: a constant; empty where there is none
    std::string instead_of;  // of [[setting]]: a value as TOML; empty where there is none
  };

  struct Fit {  // a table of [[fit]]
    ConstantFit fit;
    int line = 0;
  };

  std::string path;
  std::vector<Number> numbers;  // in order of name
  std::vector<Text> texts;
  std::vector<Setting> settings;  // in order of the file
  std::vector<Setting> has;       // likewise
  std::vector<Fit> fits;          // likewise

  const Number* number(std::string_view name) const;  // nullptr when the file does not have it
  const Text* text(std::string_view key) const;       // the first of that key
  // Returns the value of a text key, or "" when the file does not have it.
  std::string text_or_empty(std::string_view key) const;
  std::vector<std::string> values(std::string_view key) const;  // of all texts of that key
  // Returns what the file states as its name, else the file's own name without .toml.
  std::string name() const;
};

// Returns the constants of the file, in order of name; then pointers to them, to change them.
std::vector<Parameter> take_constants(ParameterFile file);
std::vector<Parameter*> constants_of(ParameterFile& file);

enum class ParameterForm {
  constants,
  profile,  // there may be tables [[fit]] of constants and correlation (model/base/provenance.h)
  stack  // entries may have `rows`, a list of words, and there may be tables [[setting]] of key, value, kind, source,
         // needs and instead_of and tables [[has]] of key, values, kind and source
};

// Reads the file. `text_keys` are the dotted keys that hold a string, `list_keys` the top-level keys that hold an array
// of strings (each becomes its own Text). Syntax errors, unknown keys and entries without value, unit, kind or source
// are input errors with file, line and key.
Result<ParameterFile> read_parameter_file(const std::string& path, const std::vector<std::string>& text_keys,
                                          const std::vector<std::string>& list_keys = {},
                                          ParameterForm form = ParameterForm::constants);

// Files that extend one another.
struct ChainKind {
  std::string what;  // "profile", for messages
  std::vector<std::string> text_keys = {"name", "description", "extends"};
  std::vector<std::string> list_keys = {};
  ParameterForm form = ParameterForm::constants;
  Result<void> (*check)(const ParameterFile& file) = nullptr;  // refuses a file before the next one is read
};

// Reads the files from the named one to the last that it extends. With `extends = "other"` the file continues with
// other.toml in its folder, else in `shipped` where that is given.
Result<std::vector<ParameterFile>> read_chain(const std::string& path, const std::string& shipped,
                                              const ChainKind& kind);

// Returns the first file with the numbers and texts of the others that no earlier one has. Names and descriptions are
// only those of the first.
ParameterFile joined(std::vector<ParameterFile> chain);

}  // namespace plumbline::model
