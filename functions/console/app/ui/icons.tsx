/** The strokes of each icon, on a grid of 24 by 24. */
const paths = {
  agents: "M5 5h14v10H5zM9 19h6M12 15v4M9 9v2M15 9v2",
  usage: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  key: "M15 9a4 4 0 1 0-3.9 4L13 15h2v2h2v2h3v-3l-5.1-5.1A4 4 0 0 0 15 9zM10 8.5v.01",
  webhook: "M4 12h11M11 7.500l4.500 4.500-4.500 4.500M20 4v16",
  members: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6M18 14a6.5 6.5 0 0 1 3.5 6",
  billing: "M3 6h18v12H3zM3 10h18M7 15h3",
  audit: "M6 3h9l4 4v14H6zM9 12h7M9 16h7M9 8h3",
  docs: "M4 5c3-1 6-1 8 1 2-2 5-2 8-1v14c-3-1-6-1-8 1-2-2-5-2-8-1zM12 6v14",
  running: "M5 12.5l4.5 4.5L19 7.5",
  busy: "M12 3a9 9 0 1 0 9 9",
  paused: "M9 5v14M15 5v14",
  asleep: "M20 14.500A8 8 0 1 1 9.500 4a6.500 6.500 0 0 0 10.500 10.500z",
  stopped: "M6 6h12v12H6z",
  error: "M12 8v5M12 16.5v.01M12 3l9.5 17h-19z",
  info: "M12 11v6M12 7.5v.01M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  waiting: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  more: "M4 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0M11 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0M18 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  external: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  download: "M12 4v11M7 10.500l5 5 5-5M5 20h14",
  down: "M6 9l6 6 6-6",
  up: "M6 15l6-6 6 6",
  back: "M15 6l-6 6 6 6",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21a8 8 0 0 1 16 0",
  refresh: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
  eye: "M2 12c3-5 6.500-7 10-7s7 2 10 7c-3 5-6.500 7-10 7s-7-2-10-7zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  hide: "M4 4l16 16M9.500 5.500c5-1.500 9 1 12.500 6.500a22 22 0 0 1-3 3.700M6 7.500A20 20 0 0 0 2 12c4 6 9 8 14 5.800",
  lock: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14M10 11v6M14 11v6",
  play: "M7 5l12 7-12 7z",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
} as const;

export type IconName = keyof typeof paths;

/** A decoration: the words next to it say the same. */
export function Icon({ name, turning = false }: { name: IconName; turning?: boolean }) {
  return (
    <svg
      class={turning ? "icon turning" : "icon"}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={paths[name]} />
    </svg>
  );
}
