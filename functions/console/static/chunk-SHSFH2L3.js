import{j as n}from"./chunk-2J3GIRCY.js";import{l as e}from"./chunk-2D6M3ZNC.js";var t=new e(void 0);n(()=>t.set(void 0));export{t as a};
