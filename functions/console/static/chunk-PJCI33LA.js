import{j as n}from"./chunk-EYZXR7DN.js";import{l as e}from"./chunk-2D6M3ZNC.js";var t=new e(void 0);n(()=>t.set(void 0));export{t as a};
