/** The version of this package; 0.0.0 outside of a release, which replaces it. */
export const VERSION = "0.0.0";
