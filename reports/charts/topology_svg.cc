#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "reports/charts/chart_frame.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/table.h"
#include "topologies/fabric.h"

namespace plumbline::reports {
namespace {

// Draws from the top (cores) to the bottom (GPUs of one node).
class TopologyPicture : private Drawing {
  static constexpr double width = 760;
  static constexpr double margin = 24;
  static constexpr std::int64_t most_drawn = 16;  // of a row of equal things

 public:
  TopologyPicture(const topologies::Topology& topology, const topologies::Fabric& fabric)
      : topology_(topology), fabric_(fabric) {}

  std::string draw() {
    const topologies::FabricShape& shape = fabric_.shape();
    text(y_ + 16, topology_.cluster.name, "title");
    text(y_ + 36, topology_.description);
    y_ += 60;
    const bool network = fabric_.nodes() > 1;
    if (network) {
      const std::string of_plane = shape.planes > 1 ? fmt::format(" in each of {} planes", shape.planes) : "";
      if (fabric_.cores() > 0)
        layer("s3", fabric_.cores() / shape.planes, "core switches" + of_plane, shape.nic_bandwidth);
      if (fabric_.spines() > 0) layer("s2", fabric_.spines() / shape.planes, "spines" + of_plane, shape.nic_bandwidth);
      layer("s4", fabric_.leaves() / shape.planes, "leaves" + of_plane, shape.nic_bandwidth);
      layer("s1", shape.nics, fmt::format("NICs of a node, {} nodes", grouped(fabric_.nodes())), 0);
    }
    node();
    return document(width, y_ + margin, topology_.cluster.name);
  }

 private:
  static double place(std::int64_t index, std::int64_t count) {
    return margin + (width - 2 * margin) * (static_cast<double>(index) + 0.5) / static_cast<double>(count);
  }
  static double size(std::int64_t count) {
    return std::min(40.0, (width - 2 * margin) / static_cast<double>(count) - 6);
  }

  void text(double y, std::string_view words, std::string_view css = "") {
    add("<text x=\"{:.6g}\" y=\"{:.6g}\" class=\"{}\">{}</text>\n", margin, y, css, escape_html(words));
  }
  void box(double x, double y, double w, double h, std::string_view css) {
    add("<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" rx=\"3\" class=\"{}\"/>\n", x, y, w, h,
        css);
  }
  // Draws a line of 18 pixels down from each drawn element.
  void cables(std::int64_t drawn) {
    for (std::int64_t i = 0; i < drawn; ++i)
      add("<line x1=\"{0:.6g}\" y1=\"{1:.6g}\" x2=\"{0:.6g}\" y2=\"{2:.6g}\" class=\"frame\"/>\n", place(i, drawn), y_,
          y_ + 18);
  }
  // Draws a caption and below it a row of boxes.
  void boxes(std::int64_t drawn, double height, const std::string& caption, std::string_view css) {
    text(y_ + 12, caption);
    y_ += 20;
    for (std::int64_t i = 0; i < drawn; ++i) box(place(i, drawn) - size(drawn) / 2, y_, size(drawn), height, css);
    y_ += height;
  }

  std::string caption(std::int64_t count, std::string_view what) const {
    return fmt::format("{} {}{}", grouped(count), what,
                       count > most_drawn ? fmt::format(", {} drawn", most_drawn) : "");
  }

  // Draws a row of switches or NICs, and the cables down from them when `bandwidth` is not 0.
  void layer(std::string_view css, std::int64_t count, const std::string& what, double bandwidth) {
    const std::int64_t drawn = std::min(count, most_drawn);
    boxes(drawn, 16, caption(count, what), css);
    if (bandwidth <= 0) {
      y_ += 18;
      return;
    }
    cables(drawn);
    text(y_ + 32, fmt::format("{:.4g} GB/s per cable and direction", bandwidth / 1e9));
    y_ += 44;
  }

  void node() {
    const topologies::FabricShape& shape = fabric_.shape();
    const std::int64_t drawn = std::min(shape.gpus_per_node, most_drawn);
    boxes(drawn, 24, caption(shape.gpus_per_node, fmt::format("{} of a node", topology_.cluster.device.name)), "s0");
    shape.interconnect == topologies::Interconnect::mesh ? mesh(drawn) : switches(drawn);
    y_ += 20;
    text(y_ + 12, fmt::format("{} GPUs in all; from one half to the other {:.4g} TB/s per direction",
                              grouped(fabric_.gpus()), topologies::bisection_bandwidth(fabric_) / 1e12));
    y_ += 16;
  }

  void mesh(std::int64_t drawn) {
    for (std::int64_t a = 0; a < drawn; ++a)
      for (std::int64_t b = a + 1; b < drawn; ++b) {
        const double depth = 14 + 56 * static_cast<double>(b - a) / static_cast<double>(drawn);
        add("<path d=\"M{:.6g} {:.6g} Q{:.6g} {:.6g} {:.6g} {:.6g}\" class=\"frame\"/>\n", place(a, drawn), y_,
            (place(a, drawn) + place(b, drawn)) / 2, y_ + 2 * depth, place(b, drawn), y_);
      }
    y_ += 80;
    text(y_ + 12,
         fmt::format("mesh: {:.4g} GB/s to each other GPU and direction", fabric_.shape().peer_bandwidth() / 1e9));
  }

  void switches(std::int64_t drawn) {
    cables(drawn);
    y_ += 18;
    box(margin, y_, width - 2 * margin, 16, "s5");
    y_ += 20;
    text(y_ + 12, fmt::format("switch: {:.4g} GB/s per GPU and direction", fabric_.shape().gpu_bandwidth / 1e9));
  }

  const topologies::Topology& topology_;
  const topologies::Fabric& fabric_;
  double y_ = margin;
};

}  // namespace

std::string topology_svg(const topologies::Topology& topology, const topologies::Fabric& fabric) {
  return TopologyPicture(topology, fabric).draw();
}

}  // namespace plumbline::reports
