import uPlot from "uplot";
import { useEffect, useRef, useState } from "preact/hooks";
import { useTheme } from "../theme";
import { chartOptions, type Drawing } from "./chart-options";

const height = 190;

export interface ChartProps extends Drawing {
  /** The chart in words. */
  label: string;
  times: number[];
  values: (number | null)[];
  /** Called with the place in times that the pointer is at, or null. */
  onPoint: (index: number | null) => void;
}

/** A curve over time. Its crosshair moves with those of the other charts on the page. */
export function Chart(props: ChartProps) {
  const { label, times, values } = props;
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawing = useRef<ChartProps>(props);
  drawing.current = props;
  useEffect(() => {
    const target = element.current;
    if (target === null) {
      return;
    }
    const options = chartOptions(target, () => drawing.current, { width: target.clientWidth, height });
    const { times: x, values: y } = drawing.current;
    const created = new uPlot(options, [x, y], target);
    plot.current = created;
    const resized = new ResizeObserver(() => created.setSize({ width: target.clientWidth, height }));
    resized.observe(target);
    return () => {
      resized.disconnect();
      created.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => {
    plot.current?.setData([times, values]);
  }, [times, values, props.top, props.from, props.to]);
  useRedrawWithTheme(() => plot.current?.redraw(false, true));
  return <div class="chart" ref={element} role="img" aria-label={label} />;
}

/** A canvas keeps its colors until it is drawn again. */
function useRedrawWithTheme(redraw: () => void): void {
  const theme = useTheme();
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  useEffect(redraw, [theme, dark]);
}
