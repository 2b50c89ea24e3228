// A TOML file of constants, as profiles, topologies and devices are: every number is a table
// { value, unit, kind, source [, uncertainty] [, low] [, high] } and gets the dotted name of its place in the file.
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
  };
  struct Text {  // a key with a string, or one of its strings
    std::string key;
    std::string value;
    int line = 0;
  };

  std::string path;
  std::vector<Number> numbers;  // in order of name
  std::vector<Text> texts;

  const Number* number(std::string_view name) const;  // nullptr when the file does not have it
  const Text* text(std::string_view key) const;       // the first of that key
  // The value of a text key, or "" when the file does not have it.
  std::string text_or_empty(std::string_view key) const;
};

// Its numbers, to change them.
std::vector<Parameter*> constants_of(ParameterFile& file);

// Reads the file; `text_keys` are the dotted keys that hold a string, `list_keys` the top-level keys that hold an array
// of strings (each becomes a Text of its own). Every error is an input error with file, line and key: syntax,
// unknown keys, entries without value, unit, kind or source.
Result<ParameterFile> read_parameter_file(const std::string& path, const std::vector<std::string>& text_keys,
                                          const std::vector<std::string>& list_keys = {});

}  // namespace plumbline::model
