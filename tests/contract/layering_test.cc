// Dependencies between folders point one way. The rules are the tables below; the test reads every #include of the
// sources and reports each line that breaks a rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

// Maps a folder to the folders that its sources may include, besides their own. tests/ may include everything.
const std::map<std::string, std::set<std::string>> kMayUse = {
    {"model", {}},
    {"topologies", {"model"}},
    {"sim", {"model", "topologies"}},
    {"real", {"model"}},
    {"calibrate", {"model", "topologies", "sim"}},
    {"reports", {"model", "topologies", "sim", "calibrate"}},
    {"examples", {"model", "topologies", "sim", "calibrate", "reports"}},
    {"cli", {"model", "topologies", "sim", "real", "calibrate", "reports"}},
    {"python", {"model", "topologies", "sim", "calibrate", "reports", "cli"}},
    {"playground", {"model", "topologies", "sim", "calibrate", "reports", "cli"}},
};

// Confines external headers: those whose name starts with one of `prefixes` may be included only by files whose path
// starts with `only_under` and ends with `only_in`.
struct Confinement {
  std::vector<std::string> prefixes;
  std::string only_under;
  std::string only_in;
};
const std::vector<Confinement> kConfined = {
    {{"toml++/", "toml.hpp", "nlohmann/", "simdjson", "pugixml", "yaml-cpp/"}, "", ".cc"},
    {{"cuda", "cublas", "cudnn", "cupti", "nccl", "nvml"}, "real/cuda/", ""},
    {{"simgrid/", "xbt/"}, "sim/network/", ".cc"},
    {{"sqlite3.h"}, "cli/tasks/", ".cc"},
    {{"smpi/", "mpi.h"}, "real/host/", ""},
};

struct Include {
  std::string name;
  bool quoted = false;
};

// Returns the header that a line includes, if it is an #include.
std::optional<Include> parse_include(const std::string& line) {
  const std::size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return std::nullopt;
  const std::size_t word = line.find_first_not_of(" \t", hash + 1);
  if (word == std::string::npos || !line.substr(word).starts_with("include")) return std::nullopt;
  const std::size_t open = line.find_first_of("<\"", word);
  if (open == std::string::npos) return std::nullopt;
  const bool quoted = line[open] == '"';
  const std::size_t close = line.find(quoted ? '"' : '>', open + 1);
  if (close == std::string::npos) return std::nullopt;
  return Include{line.substr(open + 1, close - open - 1), quoted};
}

std::string check_own_header(const SourceFile& file, const std::string& header, const std::set<std::string>& paths) {
  const std::string target = header.substr(0, header.find('/'));
  if (!paths.contains(header)) return "\"" + header + "\" is no file of this repository, named from its root";
  if (file.folder() == "tests" || file.folder() == target) return "";
  if (!kMayUse.at(file.folder()).contains(target)) return file.folder() + "/ may not use " + target + "/";
  if (header.find("/detail/") != std::string::npos) return header + " is private to " + target + "/";
  return "";
}

std::string check_external_header(const SourceFile& file, const std::string& header) {
  for (const Confinement& rule : kConfined) {
    const bool concerned = std::any_of(rule.prefixes.begin(), rule.prefixes.end(),
                                       [&](const std::string& prefix) { return header.starts_with(prefix); });
    if (!concerned || file.folder() == "tests") continue;
    if (!file.path.starts_with(rule.only_under) || !file.path.ends_with(rule.only_in))
      return "<" + header + "> belongs only in " + rule.only_under + "*" + rule.only_in;
  }
  return "";
}

// Checks a header's conventions: the include guard, and the namespace with the folder's name.
std::string check_header_text(const SourceFile& file) {
  const auto has = [&](const std::string& text) {
    return std::any_of(file.lines.begin(), file.lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  if (!has("#pragma once")) return "no #pragma once";
  if (file.folder() != "tests" && !has("namespace plumbline::" + file.folder()))
    return "nothing in namespace plumbline::" + file.folder();
  return "";
}

using Graph = std::map<std::string, std::set<std::string>>;

// Adds to `cycles`, as "a -> b -> a", the cycle that each edge closes which leads a walk from `node` back onto its
// path.
void find_cycles(const Graph& graph, const std::string& node, std::vector<std::string>& path,
                 std::set<std::string>& done, std::vector<std::string>& cycles) {
  if (done.contains(node)) return;
  if (const auto seen = std::find(path.begin(), path.end(), node); seen != path.end()) {
    std::string cycle;
    for (auto step = seen; step != path.end(); ++step) cycle += *step + " -> ";
    cycles.push_back(cycle + node);
    return;
  }
  path.push_back(node);
  if (const auto edges = graph.find(node); edges != graph.end()) {
    for (const std::string& next : edges->second) find_cycles(graph, next, path, done, cycles);
  }
  path.pop_back();
  done.insert(node);
}

// One cycle for each edge that has to go before `graph` has none.
std::vector<std::string> find_cycles(const Graph& graph) {
  std::vector<std::string> path, cycles;
  std::set<std::string> done;
  for (const auto& [node, edges] : graph) find_cycles(graph, node, path, done, cycles);
  return cycles;
}

// Returns "sim/engine/gpu_model" for "sim/engine/gpu_model.h" and "sim/engine/gpu_model.cc".
std::string component_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

std::vector<std::string> layering_violations(const std::filesystem::path& root) {
  const std::vector<SourceFile> files = read_source_tree(root, {".h", ".cc", ".cu", ".cuh", ".def"});
  std::set<std::string> paths;
  for (const SourceFile& file : files) paths.insert(file.path);

  std::vector<std::string> violations;
  const auto report = [&](const SourceFile& file, std::size_t line, const std::string& what) {
    if (!what.empty()) violations.push_back(at(file, line, what));
  };
  Graph includes, components;
  for (const SourceFile& file : files) {
    if (file.folder() != "tests" && !kMayUse.contains(file.folder())) {
      report(file, 0, "sources in a folder that the layering table does not know");
      continue;
    }
    if (file.extension() == ".h") report(file, 0, check_header_text(file));
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::optional<Include> include = parse_include(file.lines[i]);
      if (!include) continue;
      report(
          file, i,
          include->quoted ? check_own_header(file, include->name, paths) : check_external_header(file, include->name));
      if (!include->quoted) continue;
      includes[file.path].insert(include->name);
      const std::string from = component_of(file.path), to = component_of(include->name);
      if (file.folder() != "tests" && from != to) components[from].insert(to);
    }
  }
  for (const std::string& cycle : find_cycles(includes)) violations.push_back("include cycle: " + cycle);
  for (const std::string& cycle : find_cycles(components)) violations.push_back("cycle of components: " + cycle);
  return violations;
}

TEST(Layering, TableHasNoCycle) { EXPECT_THAT(find_cycles(kMayUse), testing::IsEmpty()); }

TEST(Layering, RepositoryKeepsTheRules) {
  ASSERT_TRUE(std::filesystem::exists(std::filesystem::path(source_folder()) / "model/plan/plan.h"));
  EXPECT_THAT(layering_violations(source_folder()), testing::IsEmpty());
}

// Returns the violations of a made-up tree of two correct headers and `path`, which contains `text`.
std::vector<std::string> violations_with(const std::string& path, const std::string& text) {
  const TemporaryDirectory tree;
  tree.write("model/plan/plan.h", "#pragma once\n#include <vector>\nnamespace plumbline::model {}\n");
  tree.write("sim/detail/heap.h", "#pragma once\n#include \"model/plan/plan.h\"\nnamespace plumbline::sim {}\n");
  tree.write(path, text);
  return layering_violations(tree.path());
}

TEST(Layering, SoundTreeHasNoViolation) {
  EXPECT_THAT(violations_with("sim/engine.cc", "#include \"sim/detail/heap.h\"\n#include <toml++/toml.h>\n"),
              testing::IsEmpty());
  EXPECT_THAT(violations_with("sim/network/flows.cc", "#include <simgrid/s4u.hpp>\n"), testing::IsEmpty());
  EXPECT_THAT(violations_with("tests/unit/a_test.cc", "#include \"sim/detail/heap.h\"\n"), testing::IsEmpty());
}

struct Violation {
  std::string path, text, expected;
};
const std::vector<Violation> kViolations = {
    {"model/a.cc", "\n#include \"sim/detail/heap.h\"\n", "model/a.cc:2: model/ may not use sim/"},
    {"real/a.cc", "#include \"sim/detail/heap.h\"", "real/a.cc:1: real/ may not use sim/"},
    {"cli/a.cc", " # include \"sim/detail/heap.h\"", "cli/a.cc:1: sim/detail/heap.h is private to sim/"},
    {"model/a.cc", "#include \"plan.h\"\n",
     "model/a.cc:1: \"plan.h\" is no file of this repository, named from its root"},
    {"sim/a.h", "#pragma once\n#include <nlohmann/json.hpp>\nnamespace plumbline::sim {}\n",
     "sim/a.h:2: <nlohmann/json.hpp> belongs only in *.cc"},
    {"sim/a.cc", "#include <cuda_runtime.h>\n", "sim/a.cc:1: <cuda_runtime.h> belongs only in real/cuda/*"},
    {"sim/a.cc", "#include <simgrid/s4u.hpp>\n", "sim/a.cc:1: <simgrid/s4u.hpp> belongs only in sim/network/*.cc"},
    {"misc/a.cc", "", "misc/a.cc:1: sources in a folder that the layering table does not know"},
    {"sim/a.h", "namespace plumbline::sim {}\n", "sim/a.h:1: no #pragma once"},
    {"sim/a.h", "#pragma once\nnamespace plumbline::model {}\n", "sim/a.h:1: nothing in namespace plumbline::sim"},
    {"sim/a.h", "#pragma once\n#include \"sim/a.h\"\nnamespace plumbline::sim {}\n",
     "include cycle: sim/a.h -> sim/a.h"},
};

// Each header is correct alone, but the source of one includes the other.
TEST(Layering, ComponentsDoNotIncludeEachOther) {
  const TemporaryDirectory tree;
  tree.write("sim/a.h", "#pragma once\nnamespace plumbline::sim {}\n");
  tree.write("sim/a.cc", "#include \"sim/a.h\"\n#include \"sim/b.h\"\n");
  tree.write("sim/b.h", "#pragma once\n#include \"sim/a.h\"\nnamespace plumbline::sim {}\n");
  EXPECT_THAT(layering_violations(tree.path()), testing::ElementsAre("cycle of components: sim/a -> sim/b -> sim/a"));
}

TEST(Layering, EveryRuleReportsItsViolationWithTheLine) {
  for (const auto& [path, text, expected] : kViolations)
    EXPECT_THAT(violations_with(path, text), testing::ElementsAre(expected));
}

}  // namespace
}  // namespace plumbline::tests
