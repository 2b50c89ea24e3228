#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "model/base/parameter_file.h"
#include "model/base/text_file.h"

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

}  // namespace

Result<std::vector<ParameterFile>> read_chain(const std::string& path, const std::string& shipped,
                                              const ChainKind& kind) {
  std::vector<ParameterFile> chain;
  for (std::string next = path; !next.empty();) {
    auto file = TRY(read_parameter_file(next, kind.text_keys, kind.list_keys, kind.form));
    if (kind.check != nullptr) TRY(kind.check(file));
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

ParameterFile joined(std::vector<ParameterFile> chain) {
  ParameterFile file = std::move(chain.front());
  for (std::size_t i = 1; i < chain.size(); ++i) {
    for (ParameterFile::Number& number : chain[i].numbers)
      if (file.number(number.parameter.name) == nullptr) file.numbers.push_back(std::move(number));
    std::erase_if(chain[i].texts, [&](const ParameterFile::Text& text) {
      return text.key == "name" || text.key == "description" || file.text(text.key) != nullptr;
    });
    std::ranges::move(chain[i].texts, std::back_inserter(file.texts));
  }
  std::ranges::sort(file.numbers, {}, [](const ParameterFile::Number& number) { return number.parameter.name; });
  return file;
}

}  // namespace plumbline::model
