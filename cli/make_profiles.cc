#include "cli/make_profiles.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/data.h"
#include "cli/outputs.h"
#include "reports/text/compare/validation_report.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

model::Result<void> make_one(calibrate::ProfileMaker& maker, const std::string& name, const std::string& out) {
  const calibrate::MadeProfile& made = *TRY(maker.make(name));
  TRY(write_output(out, made.text));
  FILE* stream = out == "-" ? stderr : stdout;
  fmt::print(stream, "{}: {} constants, {}\n", name, made.constants.size(), out);
  for (const std::string& note : made.notes) fmt::print(stream, "  {}\n", note);
  fmt::print(stream, "{}", reports::held_out_text(name, made.held_out));
  return {};
}

}  // namespace

model::Result<calibrate::RecipeFolders> recipe_folders() {
  const fs::path root = TRY(data_folder());
  return calibrate::RecipeFolders{.recipes = (root / "recipes").string(),
                                  .profiles = (root / "profiles").string(),
                                  .components = (root / "published/components").string(),
                                  .measured = (root / "measured").string(),
                                  .devices = (root / "topologies/devices").string()};
}

model::Result<void> make_profiles(const std::string& name, const std::string& out) {
  const auto folders = TRY(recipe_folders());
  calibrate::ProfileMaker maker(folders);
  if (name != "all") return make_one(maker, name, out.empty() ? folders.profiles + "/" + name + ".toml" : out);
  for (const std::string& each : maker.names())
    TRY(make_one(maker, each, (fs::path(out.empty() ? folders.profiles : out) / (each + ".toml")).string()));
  return {};
}

}  // namespace plumbline::cli
