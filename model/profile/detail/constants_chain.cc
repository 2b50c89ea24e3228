#include "model/profile/detail/constants_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "model/base/text_file.h"
#include "model/profile/constant_rules.h"

namespace plumbline::model {
namespace {

Error extends_error(const ParameterFile& file, std::string message, std::string hint) {
  return Error{ErrorKind::input, std::move(message), file.path, file.text("extends")->line, "extends", std::move(hint)};
}

// Returns the file of a base: next to the one that extends it, else in `shipped`; "" where there is none.
std::string base_file(const std::string& base, const std::filesystem::path& folder, const std::string& shipped) {
  const std::string name = base + ".toml";
  if (std::filesystem::exists(folder / name)) return (folder / name).string();
  const std::filesystem::path file = std::filesystem::path(shipped) / name;
  return !shipped.empty() && std::filesystem::exists(file) ? file.string() : "";
}

Error no_base(const ParameterFile& file, const std::string& base, const std::filesystem::path& folder,
              const std::string& shipped, const std::string& what) {
  std::vector<std::string> names = names_in_folder(folder.empty() ? "." : folder, ".toml");
  if (!shipped.empty()) std::ranges::copy(names_in_folder(shipped, ".toml"), std::back_inserter(names));
  return extends_error(
      file,
      fmt::format("no {} '{}' in the same folder{}", what, base, shipped.empty() ? "" : ", and none that is shipped"),
      did_you_mean(base, names, "give the name without .toml"));
}

Result<void> check_constants(const ParameterFile& file) {
  for (const ParameterFile::Number& number : file.numbers) {
    if (const auto allowed = check_constant(number.parameter); !allowed) {
      Error error = allowed.error();
      error.file = file.path;
      error.line = number.line;
      return tl::unexpected(std::move(error));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ParameterFile>> read_chain(const std::string& path, const std::string& shipped,
                                              const ChainKind& kind) {
  std::vector<ParameterFile> chain;
  for (std::string next = path; !next.empty();) {
    auto file = TRY(read_parameter_file(next, kind.text_keys, kind.list_keys, kind.form));
    TRY(check_constants(file));
    chain.push_back(std::move(file));
    const std::string base = chain.back().text_or_empty("extends");
    if (base.empty()) break;
    const std::filesystem::path folder = std::filesystem::path(next).parent_path();
    next = base_file(base, folder, shipped);
    if (next.empty()) return tl::unexpected(no_base(chain.back(), base, folder, shipped, kind.what));
    if (std::ranges::find(chain, next, &ParameterFile::path) != chain.end())
      return tl::unexpected(extends_error(chain.back(), fmt::format("'{}' extends itself", base), "remove the circle"));
  }
  return chain;
}

std::vector<Parameter> take_constants(std::vector<ParameterFile>& chain) {
  std::map<std::string, Parameter> merged;
  for (ParameterFile& file : chain) {
    for (ParameterFile::Number& number : file.numbers) {
      const std::string name = number.parameter.name;
      merged.try_emplace(name, std::move(number.parameter));
    }
  }
  std::vector<Parameter> parameters;
  for (auto& [name, parameter] : merged) parameters.push_back(std::move(parameter));
  return parameters;
}

std::string stated_name(const std::vector<ParameterFile>& chain) {
  const std::string name = chain.front().text_or_empty("name");
  return name.empty() ? std::filesystem::path(chain.front().path).stem().string() : name;
}

}  // namespace plumbline::model
