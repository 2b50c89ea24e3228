#include "topologies/detail/nccl_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <pugixml.hpp>
#include <string_view>

#include "model/base/text_file.h"

namespace plumbline::topologies {
namespace {

using model::Error;
using model::ErrorKind;

constexpr std::string_view nv_switch_class = "0x068000";
// NCCL nests a device below its bridges, those below their processor and that below the system.
constexpr int deepest = 64;
// Containers, and elements without data on links between GPUs or NICs.
constexpr std::array passive = {"system", "cpu", "pci", "nic", "c2c", "pcilink", "gin"};

// Reads the elements of a dump; the first error ends the reading.
class Reader {
 public:
  Reader(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  void read(const pugi::xml_node& node, int depth = 1) {
    if (depth > deepest) return fail(node, node.name(), fmt::format("nested deeper than {} levels", deepest));
    if (error_ || node.type() != pugi::node_element) return;
    const std::string_view name = node.name();
    if (name == "gpu") {
      read_gpu(node);
    } else if (name == "net") {
      read_net(node);
    } else if (std::ranges::find(passive, name) == passive.end()) {
      dump_.unknown.emplace(name, line(node));
      return;
    }
    for (const pugi::xml_node& child : node.children())
      if (name != "gpu") read(child, depth + 1);
  }

  model::Result<NcclDump> finish() {
    if (error_) return tl::unexpected(*error_);
    return std::move(dump_);
  }

 private:
  int line(const pugi::xml_node& node) const {
    return model::line_of_offset(text_, static_cast<std::size_t>(node.offset_debug()));
  }

  void fail(const pugi::xml_node& node, std::string key, std::string message) {
    if (error_) return;
    error_ = Error{ErrorKind::input, std::move(message), path_,
                   line(node),       std::move(key),     "is it a file that NCCL_TOPO_DUMP_FILE wrote?"};
  }

  // Returns an attribute, which must be a number above 0.
  double number(const pugi::xml_node& node, const char* attribute) {
    const double value = node.attribute(attribute).as_double(0);
    if (value > 0) return value;
    fail(node, fmt::format("{}.{}", node.name(), attribute),
         fmt::format("'{}' is not a number above 0", node.attribute(attribute).value()));
    return 1;
  }

  void read_gpu(const pugi::xml_node& node) {
    const pugi::xml_node pci = node.parent();
    DumpedGpu gpu;
    gpu.line = line(node);
    gpu.bus = pci.attribute("busid").value();
    gpu.pci_device = pci.attribute("device").value();
    // link_speed is "32.0 GT/s PCIe" per direction and unit of link_width; a transfer moves one bit.
    gpu.pci_bandwidth =
        std::strtod(pci.attribute("link_speed").value(), nullptr) * 1e9 / 8 * pci.attribute("link_width").as_double(0);
    const std::string gcn = node.attribute("gcn").value();
    gpu.architecture = gcn.empty() ? fmt::format("sm{:.0f}", number(node, "sm")) : "gfx" + gcn;
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name == "nvlink" || name == "xgmi") {
        add_links(gpu, child);
      } else if (child.type() == pugi::node_element && name != "c2c") {
        dump_.unknown.emplace(name, line(child));
      }
    }
    dump_.gpus.push_back(std::move(gpu));
  }

  void add_links(DumpedGpu& gpu, const pugi::xml_node& node) {
    const int count = static_cast<int>(number(node, "count"));
    const std::string target = node.attribute("target").value();
    if (target.empty()) fail(node, fmt::format("{}.target", node.name()), "a link without its other end");
    gpu.peers[target] += count;
    gpu.links_are_xgmi = std::string_view(node.name()) == "xgmi";
    if (node.attribute("tclass").value() == nv_switch_class) gpu.links_to_switches += count;
  }

  void read_net(const pugi::xml_node& node) {
    DumpedNic nic{node.attribute("name").value(), number(node, "speed") / 1e3};  // in Mb/s in the file
    if (std::ranges::find(dump_.nics, nic.name, &DumpedNic::name) == dump_.nics.end())
      dump_.nics.push_back(std::move(nic));
  }

  const std::string& path_;
  const std::string& text_;
  NcclDump dump_;
  std::optional<Error> error_;
};

}  // namespace

model::Result<NcclDump> read_nccl_dump(const std::string& path) {
  const auto text = TRY(model::read_text_file(path));
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    return model::wrong_input_at(path, model::line_of_offset(text, static_cast<std::size_t>(parsed.offset)), "",
                                 fmt::format("broken XML: {}", parsed.description()));
  }
  const pugi::xml_node system = document.child("system");
  if (!system)
    return model::wrong_input_at(path, 0, "", "has no element 'system'",
                                 "is it a file that NCCL_TOPO_DUMP_FILE wrote?");
  Reader reader(path, text);
  reader.read(system);
  return reader.finish();
}

}  // namespace plumbline::topologies
